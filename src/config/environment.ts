/** Reads settings and launch values from environment variables; problems are reported by variable name. */

import type { z } from 'zod'
import { nearest } from '../core/nearest.ts'
import { settingsSchema } from '../core/settings.ts'
import { allowedBy, durationHint, launchSchema, type SettingRow, schemasAt } from './definition.ts'
import type { Env } from './env.ts'
import { type Problem, quote } from './problem.ts'
import { launchRows, settingRows } from './rows.ts'
import { fromText } from './text-values.ts'

/** A variable's trimmed value; undefined if it is empty. */
export const variable = (env: Env, name: string): string | undefined => {
  if (!Object.hasOwn(env, name)) return undefined
  const value = env[name]?.trim()
  return value === '' ? undefined : value
}

/** Converts a variable's text to the type of its row; invalid text stays text, which the schema refuses. */
const typed = ({ schema }: SettingRow, text: string): unknown =>
  fromText(schema, schema.enum || schema.anyOf ? text.toLowerCase() : text)

type Nested = { [name: string]: unknown }

const put = (into: Nested, [step, ...rest]: readonly string[], value: unknown): void => {
  if (step === undefined) return
  if (rest.length === 0) {
    into[step] = value
    return
  }
  const inner = (into[step] ?? {}) as Nested // An object: only the next line sets it.
  into[step] = inner
  put(inner, rest, value)
}

const read = (
  env: Env,
  rows: readonly SettingRow[],
  schema: z.ZodType,
): { values: Nested; problems: readonly Problem[] } => {
  const values: Nested = {}
  for (const row of rows) {
    const text = variable(env, row.env)
    if (text !== undefined) put(values, row.path, typed(row, text))
  }
  const result = schema.safeParse(values)
  if (result.success) return { values, problems: [] }
  const faulty = new Map<string, SettingRow>()
  for (const { path } of result.error.issues) {
    const row = rows.find((one) => one.path.every((step, index) => step === path[index]))
    if (row) faulty.set(row.env, row)
  }
  const problems = [...faulty.values()].map((row) => ({
    where: row.env,
    found: row.secret ? 'a value that is not shown, because it is a secret' : quote(variable(env, row.env) ?? ''),
    allowed:
      schemasAt(row.schema, []).map(allowedBy).join(', or ') +
      durationHint(row.schema, row.secret ? '' : (variable(env, row.env) ?? '')),
  }))
  return { values, problems }
}

/** The settings in the environment, without defaults. */
export const settingsFrom = (env: Env) => read(env, settingRows, settingsSchema)

export type Launch = {
  readonly port: number
  /** Undefined: all interfaces. `unix:/path`: a socket, which has port 0. */
  readonly host: string | undefined
  /** Set if `host` is a socket. */
  readonly socket: { readonly path: string; readonly mode: number } | undefined
  readonly production: boolean
  readonly logLevel: 'debug' | 'info' | 'warn' | 'error'
  /** Undefined: `pretty` on a terminal, else `json`. */
  readonly logFormat: 'pretty' | 'json' | undefined
  readonly httpClient: 'own' | 'undici'
  readonly httpServer: 'own' | 'node'
  readonly heapTuning: 'on' | 'off'
  readonly workers: number
  /** As given in `HEADGATE_CONFIG`. */
  readonly configPath: string | undefined
  /** Undefined: off. */
  readonly tape: TapeLaunch | undefined
}

/** `folder`: as it is written. */
type TapeLaunch = {
  readonly mode: 'record' | 'replay' | 'strict'
  readonly folder: string
  readonly name: string
  readonly pace: number
  readonly normalise: readonly ('dates' | 'uuids' | 'paths')[]
  readonly match: 'request' | 'target'
  readonly keepsFailures: boolean
}

/** The beginning of a HOST that is a path. */
const SOCKET = 'unix:'
const ONE_ON_A_SOCKET = '1, because processes cannot share the socket of HOST=unix:/path; use a port for several'

export const launchFrom = (
  env: Env,
): { readonly launch: Launch | undefined; readonly problems: readonly Problem[] } => {
  const { values, problems } = read(env, launchRows, launchSchema)
  if (problems.length > 0) return { launch: undefined, problems }
  const parsed = launchSchema.parse(values)
  const { port, host, nodeEnv, logLevel, logFormat, httpClient, httpServer, heapTuning, workers, headgateConfig } =
    parsed
  const production = nodeEnv === 'production'
  const path = host?.startsWith(SOCKET) ? host.slice(SOCKET.length) : undefined
  if (path !== undefined && workers > 1)
    return { launch: undefined, problems: [{ where: 'WORKERS', found: `${workers}`, allowed: ONE_ON_A_SOCKET }] }
  const tape = tapeFrom(parsed)
  const refused = tape && (production ? NO_TAPE_IN_PRODUCTION : workers > 1 ? ONE_WITH_A_TAPE : undefined)
  if (refused) return { launch: undefined, problems: [{ where: 'HEADGATE_TAPE', found: tape.mode, allowed: refused }] }
  return {
    launch: {
      port: path === undefined ? port : 0,
      socket: path === undefined ? undefined : { path, mode: Number.parseInt(parsed.socketMode, 8) },
      host: host ?? (production ? undefined : '127.0.0.1'),
      production,
      logLevel,
      logFormat: logFormat ?? (production ? 'json' : undefined),
      httpClient,
      httpServer,
      heapTuning,
      workers,
      configPath: headgateConfig,
      tape,
    },
    problems,
  }
}

const NO_TAPE_IN_PRODUCTION =
  'off, because NODE_ENV is production: a tape answers with old answers, or keeps texts of users'
const ONE_WITH_A_TAPE = 'off with WORKERS above 1: repeated requests are counted in one process'

const tapeFrom = (parsed: z.output<typeof launchSchema>): TapeLaunch | undefined =>
  parsed.headgateTape === 'off'
    ? undefined
    : {
        mode: parsed.headgateTape,
        folder: parsed.headgateTapeDir,
        name: parsed.headgateTapeName,
        pace: parsed.headgateTapePace,
        normalise: parsed.headgateTapeNormalise,
        match: parsed.headgateTapeMatch,
        keepsFailures: parsed.headgateTapeFailures,
      }

const SECTIONS = [...new Set(settingRows.filter(({ path }) => path.length > 1).map(({ path }) => `${path[0]}`))].map(
  (section) => `${section.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}_`,
)

/** Warnings for unknown variables whose names resemble a setting's. */
export const misspelledSettings = (env: Env): readonly string[] => {
  const known = settingRows.map((row) => row.env)
  return (
    Object.keys(env)
      // Variables of OpenTelemetry have a warning of their own (`otelWarnings`).
      .filter((name) => SECTIONS.some((section) => name.startsWith(section)) && !known.includes(name))
      .filter((name) => !name.startsWith('OTEL_'))
      .flatMap((name) => {
        const [meant] = nearest(name, known)
        return meant !== undefined && variable(env, meant) === undefined
          ? [`${name} is set, but is not a known setting; did you mean ${meant}?`]
          : []
      })
  )
}
