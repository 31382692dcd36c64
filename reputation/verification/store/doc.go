// Package store keeps the state of verifications: in memory, or in one SQLite file.
package store
