"""Websites written by a coding model, admitted by code, and the capabilities they should train."""
