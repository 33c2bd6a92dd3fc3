/**
 * The settings, defined once. From this come the types, the loader, the names in the environment, the messages about
 * bad values and the published JSON Schema of the file.
 */
import { z } from 'zod'

/** 2^31 − 1: the longest a Node timer can wait, in ms; beyond it fires at once. */
const LONGEST = 2_147_483_647

const ms = (fallback: number, about: string) => z.int().min(0).max(LONGEST).default(fallback).describe(`${about} (ms)`)
const whole = (fallback: number, least: number, most: number, about: string) =>
  z.int().min(least).max(most).default(fallback).describe(about)

/** As a browser says it in `Origin`: no path, and no star, which no page has. Apps and extensions have schemes of their own. */
const ORIGIN = /^[A-Za-z][A-Za-z0-9+.-]*:\/\/[^/\s?#*]+\/?$/

/**
 * A section and a name make the environment's name: `circuit.resetTimeout` is `CIRCUIT_RESET_TIMEOUT`. A setting
 * outside a section is its own name: `keyStrategy` is `KEY_STRATEGY`.
 */
export const settingsSchema = z.strictObject({
  circuit: z
    .strictObject({
      timeout: ms(30_000, 'longest an attempt may take to show life; 0 is off'),
      errorThreshold: whole(50, 1, 100, 'percent of failures in the window at which a circuit opens'),
      resetTimeout: ms(300_000, 'how long a circuit stays open before one real request probes it'),
      window: z.int().min(100).max(LONGEST).default(60_000).describe('rolling window of outcomes (ms)'),
      minRequests: whole(5, 1, 1_000_000, 'outcomes needed in the window before the percentage counts'),
      consecutiveFailures: whole(
        5,
        0,
        1_000_000,
        'failures in a row that open a circuit regardless of the window; 0 is off',
      ),
      probes: whole(1, 1, 1_000, 'concurrent probes while half open'),
      slowStart: ms(
        10_000,
        'after an outage: until a target has its whole load back, of which the others take what they can meanwhile; 0 is off, and never longer than resetTimeout',
      ),
      whenAllOpen: z
        .enum(['probe', 'fail', 'try'])
        .default('probe')
        .describe('what to do when every circuit a request could use is open'),
    })
    .prefault({}),
  retry: z
    .strictObject({
      maxAttempts: whole(6, 1, 100, 'attempts for one request over all targets, the first included'),
      budgetPercent: whole(
        20,
        0,
        100,
        'second and later attempts at the same model of a provider (whatever the key), and hedges, as a share of its first tries over 10 s; failover to another model or provider is never refused',
      ),
      budgetFloor: whole(
        3,
        0,
        1_000_000,
        'such attempts allowed in a second at the same model of a provider, however few first tries there were',
      ),
    })
    .prefault({}),
  hedge: z
    .strictObject({
      percent: whole(
        0,
        0,
        100,
        'requests that may be asked of a second provider as well while the first keeps them waiting, in percent of all; each costs its prompt a second time; 0 is off',
      ),
      delay: ms(
        1_000,
        'least wait for the first provider before the second is asked; more where 1 of 20 answers there took longer lately',
      ),
    })
    .prefault({}),
  timeout: z
    .strictObject({
      connect: ms(5_000, 'to be connected to an upstream'),
      firstContent: ms(120_000, 'until the first content of an answer; 0 is off'),
      idle: ms(60_000, 'without any byte in the middle of an answer; 0 is off'),
      contentIdle: ms(180_000, 'with nothing but keep-alives in the middle of a stream; 0 is off'),
      request: ms(600_000, 'for everything, waits and retries included; 0 is off'),
      clientWrite: ms(120_000, 'for a client that has stopped reading; 0 is off'),
    })
    .prefault({}),
  stream: z
    .strictObject({
      holdback: ms(
        0,
        'the beginning of a streaming answer is held back so long after its first content, during which a break is still invisible and tried elsewhere; every client waits that much longer for the first word',
      ),
      continue: z
        .boolean()
        .default(false)
        .describe(
          'plain text that breaks off in the middle is gone on with, once, by another model that takes the beginning of its own answer; what has been said goes to that provider too and is paid for again',
        ),
    })
    .prefault({}),
  keepAlive: z
    .strictObject({ interval: ms(15_000, 'between signs of life to a streaming client; 0 is off') })
    .prefault({}),
  drain: z
    .strictObject({
      delay: z
        .int()
        .min(0)
        .max(LONGEST)
        .optional()
        .describe('to go on serving after SIGTERM before closing (ms); 0, in production 5000'),
      timeout: ms(30_000, 'for live requests to finish'),
    })
    .prefault({}),
  limit: z
    .strictObject({
      body: whole(20_971_520, 1, 1_073_741_824, 'largest request body (bytes)'),
      messages: whole(10_000, 1, 1_000_000, 'messages, items or inputs in one request'),
      parts: whole(20_000, 1, 1_000_000, 'content parts and tool calls in all messages of one request'),
      tools: whole(2_000, 1, 1_000_000, 'tools in one request'),
      concurrent: whole(10_000, 1, 1_000_000, 'requests under way at once'),
      connections: whole(
        10_000,
        1,
        1_000_000,
        'connections open at once; a tenth more is let in to ask for health only',
      ),
      connectionsPerAddress: whole(
        0,
        0,
        1_000_000,
        'connections from one address (of IPv6: one /64); 0 is off, since behind a load balancer all come from one',
      ),
      bufferedMegabytes: whole(
        512,
        1,
        1_048_576,
        'held in memory at once for requests being answered, whole answers being read and clients that read slowly; beyond it the client (its key, else its address) with the most unread bytes loses its oldest unread answer, then new model calls are turned away, and beyond twice as much answers of more than a megabyte that are being read',
      ),
      eventLoopDelay: ms(
        1_000,
        'new model calls are turned away while timers have been later than this in each of the last five seconds; 0 is off',
      ),
    })
    .prefault({}),
  auth: z
    .strictObject({
      keys: z.array(z.string().min(1)).default([]).describe('client keys; set: every model call needs one'),
      admin: z.string().min(1).optional().describe('token of the operator, for status and metrics from elsewhere'),
    })
    .prefault({}),
  cors: z
    .strictObject({
      origins: z
        .array(z.string().regex(ORIGIN).meta({ allowed: 'scheme://name or scheme://name:port' }))
        .default([])
        .describe('web origins that may call, as https://app.example')
        .meta({ allowed: 'a list of scheme://name or scheme://name:port' }),
    })
    .prefault({}),
  data: z
    .strictObject({ dir: z.string().min(1).default('.headgate').describe('folder of the embedded database') })
    .prefault({}),
  responses: z
    .strictObject({
      keepDays: whole(
        30,
        0,
        3_650,
        'days for which answers of the responses style can be asked for again and continued, unless a request says `store: false`; 0: nothing is kept',
      ),
      maxMegabytes: whole(1_024, 1, 1_048_576, 'most they may take on disk; the oldest make room'),
    })
    .prefault({}),
  idempotency: z
    .strictObject({
      keep: ms(
        600_000,
        'for which the answer to a request with an `Idempotency-Key` is kept in memory, so that the same key gets it again; 0: the header means nothing',
      ),
      finish: ms(
        60_000,
        'for which such an answer goes on after its client has left, so that it can come back for it; 0: it is ended at once',
      ),
      maxMegabytes: whole(
        64,
        1,
        65_536,
        'most memory for answers that are kept or shared; the oldest make room, and one alone may take a quarter',
      ),
    })
    .prefault({}),
  coalesce: z
    .boolean()
    .default(false)
    .describe(
      'requests of one client that say the same at the same time, and leave nothing to chance, are answered by one call upstream (bodies of up to a million characters)',
    ),
  hosts: z
    .array(z.string().min(1))
    .default([])
    .describe(
      'host names that belong to this gateway: accepted in Host on a loopback address, and as the origin of web pages without client keys',
    ),
  fallback: z
    .enum(['any', 'same-model', 'none'])
    .default('any')
    .describe('where a request may go when its own targets fail'),
  unknownModel: z
    .enum(['route', 'reject'])
    .default('route')
    .describe('what a model name nobody knows gets: the default route, or 404'),
  strategy: z
    .enum(['priority', 'weighted', 'latency', 'cost'])
    .default('priority')
    .describe('how targets of equal claim are ordered'),
  keyStrategy: z
    .enum(['spread', 'sticky', 'round-robin'])
    .default('spread')
    .describe("how one provider's keys share the load"),
})

export type Settings = z.output<typeof settingsSchema>
export type Strategy = Settings['strategy']
export type CircuitRules = Settings['circuit']
