"""What several stores share: SQL, documents, connection pools, schemas, URLs. Not for users."""
