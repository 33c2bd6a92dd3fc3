/** The response cache of all processes. */
import { z } from 'zod'
import { count, processes } from './fields.ts'

const caches = processes.describe(
  'The processes that serve the port (WORKERS), and those of other gateways that share a store. Each has a cache; the figures are their sums',
)

export const CACHE_SIZE = z
  .strictObject({ object: z.literal('cache'), answers: count, bytes: count, limit_bytes: count, processes: caches })
  .meta({ id: 'Cache' })

export const CACHE_PURGED = z
  .strictObject({ object: z.literal('cache.purged'), removed: count, processes: caches })
  .meta({ id: 'CachePurged' })
