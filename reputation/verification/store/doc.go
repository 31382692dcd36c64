// Package store keeps the state of verifications: in memory, in an SQLite file, or in a PostgreSQL database that replicas share.
package store
