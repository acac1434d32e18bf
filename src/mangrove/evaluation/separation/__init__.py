"""Paths that keep apart: the experiment of the thesis, on its own networks and on real backbones."""
