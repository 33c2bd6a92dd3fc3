/**
 * The settings, defined once: types, loader, environment names, error messages, documentation and the published JSON
 * Schema of the file are derived from this schema.
 */
import { z } from 'zod'
import { SAMPLERS } from './call-span.ts'
import { COMMON_KINDS, FINDER_KINDS } from './finder-kinds.ts'
import { patternProblem } from './linear-pattern.ts'
import { LOOP_ACTIONS, POLLING_TOOLS } from './loops.ts'
import { parseDollars } from './money.ts'

/** 2^31 − 1 ms: the longest delay of a Node timer; a longer one fires immediately. */
const LONGEST = 2_147_483_647

const ms = (fallback: number, about: string) => z.int().min(0).max(LONGEST).default(fallback).describe(`${about} (ms)`)
const whole = (fallback: number, least: number, most: number, about: string) =>
  z.int().min(least).max(most).default(fallback).describe(about)

/** A value of `Origin` as browsers send it: no path, no wildcard. Apps and extensions have schemes of their own. */
const ORIGIN = /^[A-Za-z][A-Za-z0-9+.-]*:\/\/[^/\s?#*]+\/?$/

/** Regular expressions of an operator. */
export const PATTERNS = z
  .array(
    z.string().superRefine((pattern, context) => {
      const problem = patternProblem(pattern)
      if (problem !== null) context.addIssue({ code: 'custom', message: problem })
    }),
  )
  .max(50)
  .default([])

/** Words and phrases of an operator. */
export const WORDS = z.array(z.string().trim().min(1).max(100)).max(10_000).default([])

/** An address of a receiver of telemetry. */
const receiver = (env: string, about: string) =>
  z
    .string()
    .regex(/^https?:\/\/[^/?#@\s]+(?:\/[^?#@\s]*)?$/)
    .optional()
    .describe(about)
    .meta({ allowed: 'a URL that begins with https:// or http://, without a query', env })

/** `name=value`, as OpenTelemetry writes lists in variables. */
const pairs = (env: string, about: string) =>
  z
    .array(z.string().regex(/^[^=\s]+=.*$/))
    .default([])
    .describe(about)
    .meta({ allowed: 'a list of name=value', env })

const exporter = (env: string, about: string) => z.enum(['otlp', 'none']).default('otlp').describe(about).meta({ env })

/** The variable's name is derived from the path: `circuit.resetTimeout` is `CIRCUIT_RESET_TIMEOUT`. `env`: another one. */
export const settingsSchema = z.strictObject({
  circuit: z
    .strictObject({
      timeout: ms(
        30_000,
        'time to first byte of an attempt: to the first byte of a stream, or to the response headers of a whole answer; 0 is off',
      ),
      errorThreshold: whole(50, 1, 100, 'percentage of failures in the window that opens a circuit'),
      firstProbe: ms(
        10_000,
        'time a circuit stays open before a real request probes the target; each failed probe doubles it, at most to the length of the outage so far and to resetTimeout; 0: always resetTimeout',
      ),
      resetTimeout: ms(300_000, 'longest time between two probes of an open circuit'),
      window: z
        .int()
        .min(100)
        .max(LONGEST)
        .default(60_000)
        .describe('rolling window in which outcomes are counted (ms)'),
      minRequests: whole(5, 1, 1_000_000, 'minimum number of outcomes in the window for the percentage to apply'),
      consecutiveFailures: whole(
        5,
        0,
        1_000_000,
        'consecutive failures that open a circuit, whatever the percentage; 0 is off',
      ),
      probes: whole(1, 1, 1_000, 'concurrent probes of a half-open circuit'),
      slowStart: ms(
        10_000,
        'time in which a recovered target gradually receives its full load again, while other targets take the rest; at most resetTimeout; 0 is off',
      ),
      whenAllOpen: z
        .enum(['probe', 'fail', 'try'])
        .default('probe')
        .describe(
          'when every circuit that a request could use is open: probe a target early, fail, or try as if they were closed',
        ),
    })
    .prefault({}),
  retry: z
    .strictObject({
      maxAttempts: whole(6, 1, 100, 'maximum attempts for one request over all targets, including the first'),
      budgetPercent: whole(
        20,
        0,
        100,
        'retry budget: second and later attempts at a model of a provider (whatever the key), and hedges, as a percentage of its first attempts in the last 10 s; failover to another model or provider is never refused',
      ),
      budgetFloor: whole(
        3,
        0,
        1_000_000,
        'second and later attempts and hedges per second that are allowed at a model of a provider beyond that percentage; one client key may use half of both',
      ),
      sameModelWait: ms(
        2_000,
        'longest wait for another attempt at the same model before another model is tried: for the end of a rate limit that the provider states, or once after a 500 or 502; 0 is off',
      ),
    })
    .prefault({}),
  hedge: z
    .strictObject({
      percent: whole(
        0,
        0,
        100,
        'percentage of requests that may be hedged: sent to a second target while the first one is slow. Each hedge pays for the prompt a second time; 0 is off',
      ),
      delay: ms(
        1_000,
        'minimum wait for the first target before a hedge; longer if recent answers of that target were slower (95th percentile)',
      ),
    })
    .prefault({}),
  timeout: z
    .strictObject({
      connect: ms(5_000, 'to connect to an upstream, including TLS'),
      firstContent: ms(120_000, 'to the first content of an answer; 0 is off'),
      idle: ms(60_000, 'without a byte in the middle of an answer; 0 is off'),
      contentIdle: ms(180_000, 'with only keep-alives in the middle of a stream; 0 is off'),
      request: ms(600_000, 'for the whole request, including waits and retries; 0 is off'),
      clientWrite: ms(120_000, 'for a client that does not read its answer; 0 is off'),
    })
    .prefault({}),
  network: z
    .strictObject({
      proxy: z
        .string()
        .default('env')
        .describe(
          'proxy for outgoing connections: its address, `env` for the usual variables (`HTTPS_PROXY` and others), or `none`',
        ),
      noProxy: z.array(z.string()).default([]).describe('hosts that are reached directly, beside those of `NO_PROXY`'),
      ca: z
        .array(z.string())
        .default([])
        .describe('files with trusted certificates (PEM), beside those that Node trusts'),
      caOnly: z.boolean().default(false).describe('trust only the certificates of `network.ca`'),
      addresses: z
        .enum(['auto', 'ipv4', 'ipv6'])
        .default('auto')
        .describe('addresses to connect to: both families, whichever connects first, or one of them'),
      dns: z
        .strictObject({
          keep: ms(30_000, 'time for which an answer of the name server is used; 0: each connection asks'),
          stale: ms(600_000, 'further time for which it is used while the name server fails or does not answer'),
        })
        .prefault({}),
      maxConnectionAge: ms(
        600_000,
        'age at which a connection is used for no further call, so that the gateway follows a name to its new addresses; 0 is off',
      ),
    })
    .prefault({}),
  stream: z
    .strictObject({
      holdback: ms(
        0,
        'time in which a stream is buffered after its first content, so that a break can still be retried on another target; delays the first content of every stream by this much; 0 is off',
      ),
      continue: z
        .boolean()
        .default(false)
        .describe(
          'if a text stream breaks, resume it once on another model that supports prefill. The partial answer is sent to that provider, which charges for it as input',
        ),
    })
    .prefault({}),
  keepAlive: z
    .strictObject({
      interval: ms(
        15_000,
        'interval of keep-alives in a stream without data: comments, or events where clients count events; 0 is off',
      ),
    })
    .prefault({}),
  drain: z
    .strictObject({
      delay: z
        .int()
        .min(0)
        .max(LONGEST)
        .optional()
        .describe(
          'time to keep serving after SIGTERM before connections are closed (ms); unset: 0, in production 5000',
        ),
      timeout: ms(30_000, 'time for requests in progress to finish'),
    })
    .prefault({}),
  limit: z
    .strictObject({
      body: whole(33_554_432, 1, 1_073_741_824, 'maximum size of a request body, after it is decompressed (bytes)'),
      upload: whole(
        104_857_600,
        1,
        1_073_741_824,
        'maximum size of a form with files, after it is decompressed, and of a body that is passed on as it arrives (bytes)',
      ),
      spoolMemory: whole(
        1_048_576,
        0,
        1_073_741_824,
        'size of a form up to which it is kept in memory; a larger one is kept in a file below `data.dir` until its answer has ended (bytes)',
      ),
      spoolMegabytes: whole(
        4_096,
        0,
        1_048_576,
        'space on the disk for forms in progress; 0: forms are kept in memory, and are no larger than `limit.body`',
      ),
      messages: whole(10_000, 1, 1_000_000, 'messages, items or inputs in one request'),
      parts: whole(20_000, 1, 1_000_000, 'content parts and tool calls in all messages of one request'),
      tools: whole(2_000, 1, 1_000_000, 'tools in one request'),
      concurrent: whole(10_000, 1, 1_000_000, 'concurrent requests'),
      connections: whole(
        10_000,
        1,
        1_000_000,
        'concurrent connections; a tenth more is accepted for health checks only',
      ),
      connectionsPerAddress: whole(
        0,
        0,
        1_000_000,
        'concurrent connections from one address (IPv6: one /64); 0 is off, because behind a load balancer all connections come from one address',
      ),
      bufferedMegabytes: whole(
        512,
        1,
        1_048_576,
        'memory for requests in progress, whole answers being received, and answers that clients read slowly. Above it, the client (by key, otherwise by address) with the most unread bytes loses its oldest unread answer; then new model calls are refused. What one client sends takes at most as much as stays free. Above twice as much, answers of more than 1 MB that are being received are aborted',
      ),
      eventLoopDelay: ms(
        1_000,
        'new model calls are refused while timers were late by more than this in each of the last five seconds; 0 is off',
      ),
    })
    .prefault({}),
  auth: z
    .strictObject({
      keys: z.array(z.string().min(1)).default([]).describe('client keys; if set, every model call needs one of them'),
      admin: z
        .string()
        .min(1)
        .optional()
        .describe(
          'token of the administrator: for the admin API, the dashboard, status and metrics. Without it, they answer only outside production, to requests of this machine that come without a proxy. At least 24 characters; a shorter one is a warning, and in production refused',
        ),
      required: z
        .union([z.enum(['auto']), z.boolean()])
        .default('auto')
        .describe(
          'whether model calls need a client key; `auto`: not while the installation has never named a credential (`auth.keys`, `auth.admin`, a key, team, budget or admin token, `database.url`). `false` opens the gateway',
        )
        .meta({ allowed: 'auto, true or false' }),
      pepper: z
        .string()
        .min(16)
        .optional()
        .describe(
          'secret with which digests of client keys are made, so that a copy of the database does not suffice to check a key. Keys that were created with another pepper, or without one, are refused',
        )
        .meta({ allowed: 'at least 16 characters' }),
    })
    .prefault({}),
  cors: z
    .strictObject({
      origins: z
        .array(z.string().regex(ORIGIN).meta({ allowed: 'scheme://name or scheme://name:port' }))
        .default([])
        .describe('web origins that may call the gateway, such as https://app.example')
        .meta({ allowed: 'a list of scheme://name or scheme://name:port' }),
    })
    .prefault({}),
  data: z
    .strictObject({
      dir: z
        .string()
        .min(1)
        .default('.headgate')
        .describe(
          'folder of everything that the gateway stores: client keys, budgets, usage, kept bodies, stored responses',
        ),
    })
    .prefault({}),
  database: z
    .strictObject({
      url: z
        .string()
        .regex(/^postgres(?:ql)?:\/\//)
        .optional()
        .describe(
          'Postgres database in which several gateways share client keys, budgets and usage, and without `redis.url` count limits: `postgres://user:password@host/name`; unset: files in `data.dir`',
        )
        .meta({ allowed: 'a URL that begins with postgres://' }),
      readUrl: z
        .string()
        .regex(/^postgres(?:ql)?:\/\//)
        .optional()
        .describe(
          'Postgres from which reports and lists of usage are read, such as a read replica of `database.url`: what they show is as late as the replica; unset: `database.url`',
        )
        .meta({ allowed: 'a URL that begins with postgres://' }),
      migrate: z
        .enum(['auto', 'never'])
        .default('auto')
        .describe(
          'who creates and upgrades the tables in Postgres: each gateway at its start, or only `headgate db migrate`',
        ),
    })
    .prefault({}),
  redis: z
    .strictObject({
      url: z
        .string()
        .regex(/^rediss?(?:\+cluster|\+sentinel)?:\/\//)
        .optional()
        .describe(
          'Redis or Valkey in which several gateways count limits and budgets together: `redis://:password@host:6379`, `redis+cluster://host,host` or `redis+sentinel://host,host/primary`; unset: they count in `database.url`, and without that each for itself',
        )
        .meta({ allowed: 'a URL that begins with redis://, redis+cluster://, redis+sentinel:// or rediss://' }),
    })
    .prefault({}),
  lease: z
    .strictObject({
      interval: whole(500, 50, 10_000, 'ms between two exchanges with the store about a limit or budget in use'),
      wait: whole(
        2_500,
        0,
        60_000,
        'ms that a request waits for what other gateways hold of a budget and do not use, before it is refused',
      ),
      timeout: whole(
        1_000,
        50,
        60_000,
        'ms for an answer of the store, after which it is lost and each gateway uses what it was granted',
      ),
      overdraft: z
        .number()
        .min(0)
        .max(100)
        .default(1)
        .describe('percent by which all gateways together may exceed a budget with `enforcement: fast`')
        .meta({ allowed: 'a number from 0 to 100' }),
    })
    .prefault({}),
  usage: z
    .strictObject({
      ledger: z.boolean().default(true).describe('record usage and cost of every model call'),
      keepDays: whole(30, 1, 3_650, 'days for which single requests are kept'),
      keepHours: whole(90, 1, 3_650, 'days for which totals per hour are kept; totals per day are kept forever'),
      maxMegabytes: whole(
        10_240,
        16,
        1_048_576,
        'maximum disk space of recorded usage; the oldest requests are deleted first',
      ),
      timezone: z
        .string()
        .min(1)
        .default('UTC')
        .describe('time zone of totals per day')
        .meta({ allowed: 'an IANA time zone, such as Europe/Berlin' }),
      rollupTag: z
        .string()
        .min(1)
        .optional()
        .describe('tag of teams and keys by whose values totals are kept separately, such as `app`'),
      endUser: z
        .boolean()
        .default(false)
        .describe(
          'record the end user that a request names (`user`, `safety_identifier` or `metadata.user_id`) with the request',
        ),
      drainOnAbort: z
        .boolean()
        .default(false)
        .describe(
          'if a client disconnects, continue to read its answer (whole, or a stream that has begun) from the provider for up to 30 s to charge the exact usage; otherwise at least the reservation is charged. Whole answers are always read where a hard budget applies',
        ),
    })
    .prefault({}),
  sessions: z
    .strictObject({
      guess: z
        .boolean()
        .default(false)
        .describe(
          'put requests that name no session into one by the beginning of their conversation, marked as guessed',
        ),
    })
    .prefault({}),
  switch: z
    .strictObject({
      act: z
        .enum(['off', 'report'])
        .default('off')
        .describe(
          'what is done when a failure moves a session to a target without its prompt cache: `report`: the answer and the usage state what it costs',
        ),
    })
    .prefault({}),
  loops: z
    .strictObject({
      action: z
        .enum(LOOP_ACTIONS)
        .default('off')
        .describe(
          'what is done when an agent repeats itself: `header`: the answer states it, `alert`: and an alert is sent, `block`: and a loop of a session that names itself is stopped. Teams and keys can be stricter',
        ),
      polling: z
        .array(z.string().trim().min(1).max(100))
        .max(200)
        .default(POLLING_TOOLS)
        .describe(
          'tools whose calls wait for something, as names or globs: they are a loop only after 20 equal results',
        ),
    })
    .prefault({}),
  drill: z
    .strictObject({
      shapes: z
        .boolean()
        .default(false)
        .describe(
          'count what requests of routes need (tools, schemas, sizes; no texts), so that a drill can name the fallbacks that would refuse them',
        ),
      live: z
        .boolean()
        .default(false)
        .describe(
          'send the smallest request of each kind to the targets that would be next, which costs money; a route decides for itself with `drill.live`',
        ),
      budget: z
        .union([z.string(), z.number()])
        .default('0.50')
        .transform(String)
        .refine((amount) => parseDollars(amount).ok)
        .meta({ allowed: 'an amount in dollars, such as "0.50"' })
        .describe(
          'dollars a day (UTC) for live checks of all gateways; less if 0.1 % of the daily spend of the last week is less, but 0.01 at least',
        ),
      at: z
        .string()
        .regex(/^(?:quiet|never|(?:[01]\d|2[0-3]):[0-5]\d)$/)
        .default('quiet')
        .describe(
          'when live checks begin each day: `quiet` (the hour with the fewest requests), a time (UTC) or `never`',
        )
        .meta({ allowed: 'quiet, never, or a time such as "03:00"' }),
      days: z.int().min(1).max(30).default(7).describe('days whose requests a drill considers'),
      depth: z.int().min(1).max(4).default(2).describe('targets that a drill shows after one that fails'),
    })
    .prefault({}),
  export: z
    .strictObject({
      s3: z
        .strictObject({
          bucket: z
            .string()
            .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/)
            .optional()
            .describe(
              'bucket to which the rows of requests are exported as JSON lines; unset: none. Credentials are those of AWS: `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, a profile or a role',
            )
            .meta({ allowed: 'the name of a bucket, such as acme-llm-usage' }),
          prefix: z
            .string()
            .regex(/^[A-Za-z0-9_][A-Za-z0-9._=-]*(?:\/[A-Za-z0-9_][A-Za-z0-9._=-]*)*$/)
            .default('headgate')
            .describe('folder of the bucket; two databases of usage need two')
            .meta({ allowed: 'letters, digits and . _ = - in parts separated by /, none of which begins with a dot' }),
          region: z
            .string()
            .regex(/^[a-z0-9-]{1,40}$/)
            .default('us-east-1')
            .describe('region of the bucket')
            .meta({ allowed: 'a region, such as eu-central-1 or auto' }),
          endpoint: z
            .string()
            .regex(/^https?:\/\/[^/?#@\s]+(?:\/[^?#@\s]*)?$/)
            .optional()
            .describe(
              'address of another storage with the API of S3, such as `https://minio.example:9000`; unset: Amazon S3',
            )
            .meta({ allowed: 'a URL that begins with https:// or http://, without a query' }),
        })
        .prefault({}),
    })
    .prefault({}),
  ledger: z
    .strictObject({
      folder: z.string().min(1).optional().describe('folder of the usage journal; unset: `journal` in `data.dir`'),
      sync: z
        .enum(['interval', 'dispatch', 'never'])
        .default('interval')
        .describe(
          'when the usage journal is forced to disk, which matters only if the machine stops: each second, before each call of a provider (adds up to 24 ms), or never. After the end of a process alone nothing is lost',
        ),
      interval: z
        .int()
        .min(10)
        .max(60_000)
        .default(250)
        .describe('interval at which journal records are written to the usage database (ms)'),
      whenUnwritable: z
        .enum(['serve', 'refuse'])
        .default('serve')
        .describe('if the usage journal cannot be written, as on a full disk: make calls unrecorded, or refuse them'),
      spoolMegabytes: whole(
        2_048,
        1,
        1_048_576,
        'maximum disk space of journal records that are not yet in the usage database; above it, the journal is not writable',
      ),
    })
    .prefault({}),
  budget: z
    .strictObject({
      maxOutput: whole(
        32_768,
        1,
        10_000_000,
        'output tokens that a budget reserves for a call if neither the request nor the model limits them',
      ),
      unknownPrice: z
        .enum(['dearest', 'refuse', 'allow'])
        .default('dearest')
        .describe(
          'a model without a known price, where a hard budget applies: charge the dearest known prices of its provider (without any, skip it), always skip it, or call it without a charge',
        ),
      whenUnknown: z
        .enum(['refuse', 'serve'])
        .default('refuse')
        .describe(
          'a hard budget whose earlier usage is not known, because it cannot be read or that takes long: answer 503 budget_unavailable until it is, or count from zero until then',
        ),
    })
    .prefault({}),
  cache: z
    .strictObject({
      maxMegabytes: whole(
        64,
        1,
        65_536,
        'maximum memory of the response cache; the least recently used answers are dropped first',
      ),
      shared: z
        .boolean()
        .default(false)
        .describe(
          'keep cached answers in Redis too (`redis.url`), so that gateways send the answers of each other again; they are not encrypted there',
        ),
    })
    .prefault({}),
  bodies: z
    .strictObject({
      sample: z
        .number()
        .min(0)
        .max(1)
        .default(0)
        .describe(
          'share of requests whose bodies are stored, redacted; 0: only those of keys with `logBodies`, 1: all',
        ),
      keepDays: whole(7, 1, 3_650, 'days for which bodies are kept'),
      maxMegabytes: whole(1_024, 1, 1_048_576, 'maximum disk space of bodies; the oldest are deleted first'),
      maxBytes: whole(65_536, 1, 16_777_216, 'stored part of one body (bytes)'),
      redact: z
        .array(z.enum(FINDER_KINDS))
        .default([...COMMON_KINDS])
        .describe('what is removed from stored bodies'),
      patterns: PATTERNS.describe(
        'further texts that are removed, as regular expressions whose repetitions have limits; one with a comma needs the file',
      ),
      words: WORDS.describe(
        'further words and phrases that are removed, in upper and lower case, but not within other words',
      ),
    })
    .prefault({}),
  dashboard: z
    .strictObject({
      enabled: z
        .boolean()
        .default(true)
        .describe('serve the dashboard at `/dashboard/`; the pages at `/docs/` are always served'),
    })
    .prefault({}),
  metrics: z
    .strictObject({
      perKey: z.boolean().default(false).describe('metrics for each client key, by its ID'),
    })
    .prefault({}),
  otel: z
    .strictObject({
      endpoint: receiver(
        'OTEL_EXPORTER_OTLP_ENDPOINT',
        'address of a collector that receives telemetry by OTLP over HTTP, such as `http://localhost:4318`; unset: nothing is exported',
      ),
      headers: pairs(
        'OTEL_EXPORTER_OTLP_HEADERS',
        'headers of its requests, such as `x-honeycomb-team=KEY`; values are percent-encoded',
      ),
      protocol: z
        .enum(['http/protobuf', 'http/json'])
        .default('http/protobuf')
        .describe('protocol of the export')
        .meta({ env: 'OTEL_EXPORTER_OTLP_PROTOCOL' }),
      timeout: z
        .int()
        .min(100)
        .max(60_000)
        .default(10_000)
        .describe('time for one batch, with its retries (ms)')
        .meta({ env: 'OTEL_EXPORTER_OTLP_TIMEOUT' }),
      compression: z
        .enum(['none', 'gzip'])
        .default('none')
        .describe('compression of batches')
        .meta({ env: 'OTEL_EXPORTER_OTLP_COMPRESSION' }),
      certificate: z
        .string()
        .min(1)
        .optional()
        .describe('PEM file with the certificates that the receiver may have; unset: those of Node')
        .meta({ env: 'OTEL_EXPORTER_OTLP_CERTIFICATE' }),
      disabled: z
        .boolean()
        .default(false)
        .describe('export nothing, whatever else is set')
        .meta({ env: 'OTEL_SDK_DISABLED' }),
      serviceName: z
        .string()
        .min(1)
        .max(256)
        .default('headgate')
        .describe('`service.name` of the telemetry')
        .meta({ env: 'OTEL_SERVICE_NAME' }),
      resourceAttributes: pairs(
        'OTEL_RESOURCE_ATTRIBUTES',
        'further attributes of the resource, such as `deployment.environment.name=prod`; values are percent-encoded',
      ),
      traces: z
        .strictObject({
          exporter: exporter('OTEL_TRACES_EXPORTER', 'whether traces are exported'),
          endpoint: receiver(
            'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT',
            'whole address for traces; unset: `v1/traces` below `otel.endpoint`',
          ),
          headers: pairs('OTEL_EXPORTER_OTLP_TRACES_HEADERS', 'headers for traces instead of `otel.headers`'),
          sampler: z
            .enum(SAMPLERS)
            .default('parentbased_always_on')
            .describe('which traces are exported; `parentbased`: as the caller decided, if there is one')
            .meta({ env: 'OTEL_TRACES_SAMPLER' }),
          samplerArg: z
            .number()
            .min(0)
            .max(1)
            .default(1)
            .describe('share of traces that `traceidratio` exports')
            .meta({ env: 'OTEL_TRACES_SAMPLER_ARG' }),
        })
        .prefault({}),
      metrics: z
        .strictObject({
          exporter: exporter('OTEL_METRICS_EXPORTER', 'whether metrics are exported'),
          endpoint: receiver(
            'OTEL_EXPORTER_OTLP_METRICS_ENDPOINT',
            'whole address for metrics; unset: `v1/metrics` below `otel.endpoint`',
          ),
          headers: pairs('OTEL_EXPORTER_OTLP_METRICS_HEADERS', 'headers for metrics instead of `otel.headers`'),
          interval: z
            .int()
            .min(1_000)
            .max(3_600_000)
            .default(60_000)
            .describe('time between two exports of metrics (ms)')
            .meta({ env: 'OTEL_METRIC_EXPORT_INTERVAL' }),
        })
        .prefault({}),
      keepErrors: z
        .boolean()
        .default(true)
        .describe(
          'export requests that failed, fell back or were slow (10 s to the first content), whatever the sampler decided',
        ),
      legacyNames: z.boolean().default(false).describe('write the attribute names of version 1.41 too'),
      traceUrl: z
        .string()
        .regex(/^https?:\/\/[^\s]*\{trace\}[^\s]*$/)
        .optional()
        .describe(
          'address of a trace in your trace viewer, with `{trace}` for its ID: the dashboard links from a request to it',
        )
        .meta({ allowed: 'a URL that begins with https:// or http:// and contains {trace}' }),
      propagate: z
        .array(z.string().min(1))
        .default([])
        .describe('IDs of providers that receive the trace context (`traceparent`); `*`: all'),
    })
    .prefault({}),
  audit: z
    .strictObject({
      keepDays: whole(365, 1, 36_500, 'days for which the audit log of administrative changes is kept'),
    })
    .prefault({}),
  trustedProxies: z
    .array(z.string().min(1).meta({ allowed: 'an IP address or a CIDR range, such as 10.0.0.0/8, or unix' }))
    .default([])
    .describe(
      'proxies whose `X-Forwarded-For` states the address of the client, as IP addresses or CIDR ranges; `unix`: those that connect to the socket of `HOST=unix:/path`. Without them, the address of the connection counts',
    )
    .meta({ allowed: 'a list of IP addresses or CIDR ranges, such as 10.0.0.0/8, or unix' }),
  proxyProtocol: z
    .enum(['off', 'required'])
    .default('off')
    .describe(
      '`required`: every connection begins with a PROXY header (version 1 or 2) of one of `trustedProxies`, which states the address of the client',
    ),
  responses: z
    .strictObject({
      keepDays: whole(
        30,
        0,
        3_650,
        'days for which answers of the responses API can be retrieved and continued, unless a request has `store: false`; 0: nothing is stored',
      ),
      maxMegabytes: whole(1_024, 1, 1_048_576, 'maximum disk space of stored responses; the oldest are deleted first'),
      timeout: whole(
        4_000,
        100,
        60_000,
        'ms without any answer of their store after which it is away: until it is back, requests do not wait for it, answers state `store: false`, and those that need it are refused at once',
      ),
    })
    .prefault({}),
  realtime: z
    .strictObject({
      maxSession: ms(3_600_000, 'time after which a session of the Realtime API ends; 0: never'),
      idle: ms(600_000, 'time without any byte of the provider after which its session ends; 0: never'),
      guarded: z
        .enum(['refuse', 'allow'])
        .default('refuse')
        .describe('what happens to sessions of keys to which guards apply: these cannot read what is spoken'),
    })
    .prefault({}),
  batches: z
    .strictObject({
      interval: whole(
        600_000,
        1_000,
        86_400_000,
        'ms between two readings of a batch that a client has made by a passed call, until its cost is booked; also the time in which its results must be read',
      ),
    })
    .prefault({}),
  idempotency: z
    .strictObject({
      keep: ms(
        600_000,
        'time for which the answer to a request with an `Idempotency-Key` is kept for retries with the same key; 0: the header is ignored',
      ),
      finish: ms(
        60_000,
        'time for which a call with an `Idempotency-Key` continues after its client disconnected, so that a retry can receive the answer; 0: it is cancelled at once',
      ),
      maxMegabytes: whole(
        64,
        1,
        65_536,
        'maximum memory for kept and shared answers; the oldest are dropped first, and one answer may take a quarter',
      ),
    })
    .prefault({}),
  coalesce: z
    .boolean()
    .default(false)
    .describe(
      'one upstream call answers equal concurrent requests of one client, if they are deterministic (bodies of up to a million characters)',
    ),
  hosts: z
    .array(z.string().min(1))
    .default([])
    .describe(
      'host names of this gateway besides loopback names: accepted in the Host header if it listens on a loopback address, and as origin of web pages and for reads if no client keys are set (protection against DNS rebinding)',
    ),
  tls: z
    .strictObject({
      cert: z
        .array(z.string().min(1))
        .default([])
        .describe(
          'PEM files with a certificate and its chain; if set, the port takes TLS. The first is for clients that name no other',
        ),
      key: z
        .array(z.string().min(1))
        .default([])
        .describe('PEM files with the private keys, in the order of `tls.cert`'),
      clientCa: z.string().min(1).optional().describe('PEM file with the authorities of client certificates'),
      clientAuth: z
        .enum(['none', 'optional', 'require'])
        .default('none')
        .describe('client certificates: not requested, checked if sent, or required of every connection'),
      healthPort: z
        .int()
        .min(0)
        .max(65_535)
        .default(0)
        .describe(
          'port for `/health`, `/health/live` and `/health/ready` without TLS and without a PROXY header; 0: none',
        ),
    })
    .prefault({}),
  basePath: z
    .string()
    .regex(/^(?:(?:\/(?!\.{1,2}(?:\/|$))[\w.~-]+)+)?$/)
    .max(200)
    .default('')
    .describe(
      'path below which everything is served, such as `/gateway`, for proxies that do not remove it. `/health`, `/health/live` and `/health/ready` exist without it too',
    )
    .meta({ allowed: 'a path such as /gateway, without a slash at its end' }),
  fallback: z
    .enum(['any', 'same-model', 'none'])
    .default('any')
    .describe(
      'where a request may go when its own targets fail: any provider, another provider of the same model, or none (one provider, all its keys; a chat route that lists several providers is limited to the first one too)',
    ),
  prove: z
    .strictObject({
      onFailure: z
        .enum(['warn', 'refuse'])
        .default('warn')
        .describe(
          'a claim of `claims` does not hold: warn, or refuse the configuration or the change of a team or key that breaks it',
        ),
    })
    .prefault({}),
  routing: z
    .strictObject({
      requestMembers: z
        .boolean()
        .default(true)
        .describe(
          'follow the members by which requests state their targets: `models`, `fallbacks` and `provider`, as clients of OpenRouter and LiteLLM write them',
        ),
    })
    .prefault({}),
  unknownModel: z
    .enum(['route', 'reject'])
    .default('route')
    .describe('a model name that matches nothing: use the default route, or answer 404'),
  strategy: z
    .enum(['priority', 'weighted', 'latency', 'cost'])
    .default('priority')
    .describe('order of targets with equal rank'),
  keyStrategy: z
    .enum(['spread', 'sticky', 'round-robin'])
    .default('spread')
    .describe("how a provider's keys share the load"),
})

export type Settings = z.output<typeof settingsSchema>
export type Strategy = Settings['strategy']
export type CircuitRules = Settings['circuit']
