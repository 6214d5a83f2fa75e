"""The test kit holdfast is built with, published for people who write stores of their own."""
