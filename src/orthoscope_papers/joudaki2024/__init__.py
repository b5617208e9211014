"""Joudaki, On a Mathematical Understanding of Deep Neural Networks (thesis, 2024)."""
