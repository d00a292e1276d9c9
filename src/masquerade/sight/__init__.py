"""What public networks see in a picture: faces and their tracks, features of places."""
