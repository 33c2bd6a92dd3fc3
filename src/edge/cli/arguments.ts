/** Values of options: numbers, lists, tags and times. Invalid ones are usage errors. */
import type { Json, JsonObject } from '../../core/json.ts'
import { CliError, EXIT } from './cli.ts'

const usage = (message: string): never => {
  throw new CliError(EXIT.usage, message)
}

/** A whole number from 0. `unlimited` is null. */
export const wholeNumber = (option: string, value: string | undefined): number | null | undefined => {
  if (value === undefined) return undefined
  if (value === 'unlimited') return null
  return /^[0-9]{1,10}$/.test(value) ? Number(value) : usage(`${option} needs a whole number or "unlimited".`)
}

/** A comma list. `any` is null: no restriction. An empty text is an empty list: nothing. */
export const globList = (value: string | undefined): readonly string[] | null | undefined => {
  if (value === undefined) return undefined
  if (value === 'any') return null
  return value
    .split(',')
    .map((one) => one.trim())
    .filter((one) => one !== '')
}

/** Collects repeated options. */
export const repeated = (value: string, before: readonly string[] = []): readonly string[] => [...before, value]

/** `name=value`, repeated. */
export const tagsOf = (values: readonly string[] = []): Readonly<Record<string, string>> =>
  Object.fromEntries(
    values.map((value) => {
      const at = value.indexOf('=')
      return at > 0
        ? [value.slice(0, at), value.slice(at + 1)]
        : usage('--tag needs name=value, such as --tag app=search.')
    }),
  )

const UNITS: { readonly [unit: string]: number } = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 }
const DURATION = /^([0-9]{1,6})([smhdw])$/

/** A duration such as `30m`, `24h` or `7d` in ms; undefined: it is not one. */
export const durationMs = (value: string): number | undefined => {
  const [, count, unit = ''] = DURATION.exec(value) ?? []
  const size = UNITS[unit]
  return count === undefined || size === undefined ? undefined : Number(count) * size
}

/** A time: ISO 8601, a date, or a duration from now (`sign` 1) or before now (-1). ISO 8601 in UTC. */
export const timeOf = (option: string, value: string, sign: 1 | -1): string => {
  const duration = durationMs(value)
  const time = duration === undefined ? Date.parse(value) : Date.now() + sign * duration
  const isTime = duration !== undefined || /^\d{4}-\d{2}-\d{2}/.test(value)
  return isTime && Number.isFinite(time)
    ? new Date(time).toISOString()
    : usage(`${option} needs a time such as 2026-12-31, or a duration such as 24h or 7d.`)
}

/** The members that have a value. */
export const given = (values: { readonly [name: string]: Json | undefined }): JsonObject =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined))

/** A word as a shell reads it. */
export const shellWord = (word: string): string =>
  /^[A-Za-z0-9._@+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
