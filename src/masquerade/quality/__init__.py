"""What a published picture, signal or model is still good for; a room, and private."""
