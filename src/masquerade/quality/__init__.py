"""What a published picture, signal or model is still good for; the figures are private."""
