/** Outages of providers. */
import { z } from 'zod'
import { time } from '../../records/entities/shown.ts'
import { count, listOf } from './fields.ts'

export const INCIDENT = z
  .strictObject({
    id: z.string(),
    nodes: z.array(z.string()).describe('The names of the gateways that had it: several if they share a database'),
    providers: z.array(z.string()).describe('Several if they share a base URL or a proxy'),
    models: z.array(z.string()).describe('Models whose circuits opened, at most 50'),
    base_url: z.string().nullable().describe('The base URL or proxy whose circuit opened'),
    begin: time.describe('When the first circuit opened'),
    end: time.nullable().describe('When the last one closed; null: it lasts'),
    seconds: count.describe('Its length so far'),
    ended_by: z
      .enum(['recovered', 'operator', 'restart', 'removed'])
      .nullable()
      .describe('`restart`: the process ended; `removed`: the provider was removed from the configuration'),
    cause: z.string().describe('The kind of the failure that opened the first circuit'),
    request: z.string().nullable().describe('The ID of the request that had it'),
    failures: count.describe('Attempts that failed since'),
    rerouted: count.describe('Requests that another target answered'),
    lost: count.describe('Requests that failed'),
  })
  .meta({ id: 'Incident' })

export const INCIDENTS_PAGE = z
  .strictObject({
    ...listOf(INCIDENT).shape,
    from: time,
    to: time,
    missing: z
      .string()
      .nullable()
      .describe('Why the list has only what this gateway has in memory: the stored incidents cannot be read'),
  })
  .meta({ id: 'IncidentsPage' })
