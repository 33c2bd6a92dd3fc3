/** The state of the processes. */
import { z } from 'zod'
import { time } from '../../records/entities/shown.ts'
import { processes } from './fields.ts'

const bytes = z.int().min(0)

const problems = z.array(z.strictObject({ component: z.string(), reason: z.string(), since: time }))
const memory = z.strictObject({ rss: bytes, heap_used: bytes, external: bytes }).describe('In bytes')

/** The state of one process. */
const facts = {
  status: z.enum(['ok', 'degraded', 'draining']),
  pid: z.int(),
  started_at: time,
  uptime_ms: z.int().min(0),
  requests_in_progress: z.int().min(0),
  connections: z.int().min(0),
  memory,
  problems,
}
/** The state of one of several processes. */
export const PROCESS_STATE = z.strictObject({ node: z.string().nullable(), ...facts })

const GATEWAY = z
  .strictObject({
    node: z.string().describe('Its name, from its data folder'),
    version: z.string(),
    status: z.enum(['ok', 'degraded', 'draining']),
    problems: z.array(z.string()).describe('The components that do not work, such as `ledger`'),
    lag_ms: z.number().min(0).describe('By which its usage in the database is late'),
    started_at: time,
    requests_in_progress: z.int().min(0),
    processes,
    seen_ms: z.int().min(0).describe('Since its last message'),
  })
  .meta({ id: 'Gateway' })

export const SYSTEM = z
  .strictObject({
    object: z.literal('system'),
    ...facts,
    version: z.string(),
    node: z.string().describe('Version of Node.js'),
    platform: z.string(),
    production: z.boolean(),
    catalogue: z.string().nullable().describe('The date of the catalogue of models and prices; null: it has none'),
    worker: z
      .strictObject({ number: z.int().min(1), of: z.int().min(1) })
      .nullable()
      .describe('The process that answered, where several serve the port (WORKERS)'),
    ledger: z
      .strictObject({ lag_ms: z.number().min(0), dropped: z.int().min(0) })
      .describe('Age of the last stored record while more are left, and records that could not be written'),
    nodes: z
      .array(PROCESS_STATE)
      .describe(
        'Each process that serves the port, and those of other gateways that share a store, if it has answered; this one first',
      ),
    gateways: z
      .array(GATEWAY)
      .describe(
        'The gateways that share DATABASE_URL or REDIS_URL, this one first; empty: this one shares none. One that ends leaves the list at once, one that is killed within 15 s',
      ),
  })
  .meta({ id: 'System' })

export const BACKUP_STATE = z
  .strictObject({
    object: z.literal('backup_state'),
    last: z
      .strictObject({ at: time, bytes: z.int(), usage: z.boolean().describe('With the ledger') })
      .nullable()
      .describe('null: none is known'),
    data: z.string().describe('The data folder'),
    folder: z.string().describe('The working folder, in which `headgate backup` finds the configuration'),
    postgres: z.boolean().describe('Keys, budgets and usage are in Postgres, and in no backup of the data folder'),
  })
  .meta({ id: 'BackupState' })
