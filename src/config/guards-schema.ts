/** The section `guards` of the file: rules for the texts of requests and answers. */
import { z } from 'zod'
import { FINDER_KINDS } from '../core/finder-kinds.ts'
import type { GuardRule } from '../core/guard.ts'
import { GUARD_ACTIONS, GUARD_PHASES } from '../core/guard-verdict.ts'
import { PATTERNS, WORDS } from '../core/settings.ts'
import { guardServiceOf, serviceSchema } from './guard-services.ts'

const NAMES = z.array(z.string().min(1))

export const guardSchema = z
  .strictObject({
    on: z.array(z.enum(GUARD_PHASES)).min(1).default(['request']).describe('what it reads: requests, answers, or both'),
    find: z.array(z.enum(FINDER_KINDS)).default([]).describe('kinds of personal data and secrets that it finds'),
    patterns: PATTERNS.describe('regular expressions of further texts; their repetitions have limits'),
    words: WORDS.describe('further words and phrases, in upper and lower case, but not within other words'),
    action: z
      .enum(GUARD_ACTIONS)
      .describe(
        '`block`: the request is refused; `mask`: providers receive a mask, and the answer has the text again; a text that is new in an answer becomes a mask for good; `flag`: it is only stated; `log`: the same without a response header',
      ),
    message: z.string().min(1).max(300).optional().describe('what the refusal advises; with `block`'),
    label: z
      .string()
      .regex(/^[A-Z][A-Z0-9]{0,11}$/)
      .optional()
      .describe('name in the masks, instead of that of what was found; with `mask`')
      .meta({ allowed: '1 to 12 capital letters and digits, such as STAFF' }),
    tools: z
      .boolean()
      .default(false)
      .describe('in answers, it masks also in arguments of tools, which clients execute; else it only counts there'),
    media: z
      .boolean()
      .default(false)
      .describe('it finds images, audio, videos and files in requests, which no rule reads'),
    service: serviceSchema.optional(),
    exceptTeams: NAMES.default([]).describe('teams whose calls it does not read'),
    onlyTeams: NAMES.nullable()
      .default(null)
      .describe(
        'teams to which alone it applies; to all if one of them does not exist. `[]`: only to requests that add it',
      ),
    onlyRoutes: NAMES.nullable()
      .default(null)
      .describe('routes to which alone it applies; to all calls if one of them does not exist'),
    optionalTeams: NAMES.default([]).describe(
      'teams whose requests may leave it out by the header `x-headgate-guards: -name`; `*`: all teams',
    ),
  })
  .refine(
    ({ find, patterns, words, media, service }) =>
      (service !== undefined) !== (media || find.length + patterns.length + words.length > 0),
    { message: 'at least one of find, patterns, words and media, or a service' },
  )
  .refine(({ service, action }) => service?.answers !== 'watch' || action !== 'mask', {
    path: ['service'],
    message: 'hold: an answer that is sent while it is checked cannot be changed',
  })
  .refine(({ media, action, on }) => !media || (action !== 'mask' && on.includes('request')), {
    path: ['media'],
    message: 'only with block, flag or log, on requests: media cannot be masked',
  })
  .refine(({ service, action }) => service?.kind !== 'moderation' || action !== 'mask', {
    path: ['action'],
    message: 'block, flag or log: a moderation does not say which part of a text it means',
  })

type GuardEntry = z.output<typeof guardSchema>

/** The rules in the order of the file. */
export const guardRulesOf = (entries: ReadonlyMap<string, GuardEntry>): readonly GuardRule[] =>
  Array.from(entries, ([name, { find, message, label, service, ...entry }]) => ({
    name,
    kinds: find,
    message: message ?? null,
    label: label ?? null,
    ...entry,
    ...(service && { service: guardServiceOf(service) }),
  }))
