"""The proof page: a static folder in which a reader's own browser runs the evidence of a bundle.

It reads bundles that are finished, and knows nothing of how they came about. What a browser saves is read by
:mod:`onnxproof.page.device`.
"""
