/** The tapes of a gateway with `HEADGATE_TAPE`. */
import { z } from 'zod'
import { count } from './fields.ts'

export const TAPE = z
  .strictObject({
    object: z.literal('tape'),
    mode: z.enum(['off', 'record', 'replay', 'strict']),
    folder: z.string().nullable().describe('null: off'),
    name: z.string().nullable().describe('The tape of requests that name none; null: off'),
    normalise: z.array(z.enum(['dates', 'uuids', 'paths'])),
    replayed: count.describe('Answers from tapes since the start'),
    recorded: count,
    misses: count.describe('Requests without a recording'),
    failed: count.describe('Exchanges that could not be recorded: with a secret, too large, or the disk is full'),
    last_miss: z.string().nullable(),
    tapes: z.array(
      z.strictObject({
        name: z.string(),
        exchanges: count,
        used: count.describe('Exchanges that were replayed since the start'),
        bytes: count,
        problems: z.array(z.string()).describe('Lines that cannot be used'),
      }),
    ),
  })
  .meta({ id: 'Tape' })
