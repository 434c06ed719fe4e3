"""Ten small architectures in plain JAX, in any floating dtype: what the JAX profiles are about.

Each is a function of a dictionary of parameters and of its inputs. Parameters are drawn from a seed by arithmetic
that gives the same values on every machine, so that a profile can state the digest of its weights.
"""

from onnxproof.models.architectures import ARCHITECTURES as ARCHITECTURES
from onnxproof.models.builder import build as build
from onnxproof.models.network import Network as Network

__all__ = ["ARCHITECTURES", "Network", "build"]
