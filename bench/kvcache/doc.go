// Package kvcache turns a model's config.json into the geometry of its KV cache.
package kvcache
