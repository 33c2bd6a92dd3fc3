/** Guards of the configuration, and what they find. */
import { z } from 'zod'
import { FINDER_KINDS } from '../../core/finder-kinds.ts'
import { GUARD_ACTIONS, GUARD_PHASES } from '../../core/guard-verdict.ts'
import { time } from '../../records/entities/shown.ts'
import { count, searchedUntil } from './fields.ts'
import { VERDICT } from './requests.ts'

const names = z.array(z.string())

export const GUARD = z
  .strictObject({
    name: z.string(),
    on: z.array(z.enum(GUARD_PHASES)),
    action: z.enum(GUARD_ACTIONS),
    find: z.array(z.enum(FINDER_KINDS)),
    patterns: count.describe('number of its patterns'),
    words: count.describe('number of its words'),
    service: z.string().nullable().describe('the kind of its service'),
    label: z.string().nullable(),
    tools: z.boolean(),
    media: z.boolean(),
    except_teams: names,
    only_teams: names.nullable(),
    only_routes: names.nullable(),
    optional_teams: names,
    hits: z
      .array(
        z.strictObject({
          phase: z.enum(GUARD_PHASES),
          action: z.enum([...GUARD_ACTIONS, 'error']),
          requests: count,
          found: count.describe('texts that it found in them'),
        }),
      )
      .describe('of the last 24 hours'),
  })
  .meta({ id: 'Guard' })

export const GUARDS = z
  .strictObject({
    object: z.literal('guards'),
    data: z.array(GUARD).describe('in the order of the file'),
    from: time,
    to: time,
    searched_until: searchedUntil,
  })
  .meta({ id: 'Guards' })

export const GUARD_TEST = z
  .strictObject({
    object: z.literal('guard_test'),
    phase: z.enum(GUARD_PHASES),
    verdicts: z.array(VERDICT).describe('the strictest first'),
    refused: z.string().nullable().describe('the message of the refusal; null: the text passes'),
    text: z.string().describe('the text with `[EMAIL]` for what is masked'),
    not_asked: names.describe('guards with a service, which a test does not call'),
  })
  .meta({ id: 'GuardTest' })
