"""Tests that need OpenVINO and tract."""
