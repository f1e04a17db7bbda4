"""What every route needs: how an error is answered."""
