"""What public networks see in a picture: faces, whose they are, bodies, joints, tracks, places."""
