"""Separated paths on real backbones: under discs at random, and under disasters that happened."""
