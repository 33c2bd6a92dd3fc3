/** Access, limits and tags of keys and teams: options of the command line as members of the API. */
import type { Command } from 'commander'
import { NO_REQUIRE, REQUIRE_HEADER } from '../../core/data-policy.ts'
import { good } from '../../core/failure.ts'
import type { JsonObject } from '../../core/json.ts'
import { LOOP_ACTIONS } from '../../core/loops.ts'
import { parseRequire } from '../../policy/accounts/data-policy.ts'
import { choice, given, globList, repeated, tagsOf, wholeNumber } from '../arguments.ts'
import { CliError, EXIT } from '../cli.ts'

export type RestrictionOptions = {
  readonly models?: string
  readonly routes?: string
  readonly providers?: string
  readonly styles?: string
  readonly ips?: string
  readonly rpm?: string
  readonly tpm?: string
  readonly concurrent?: string
  readonly require?: string
  readonly loops?: string
  readonly tag?: readonly string[]
}

/** The options of limits, of the data policy and of loops, after those of access. */
export const withLimits = (command: Command): Command =>
  command
    .option('--rpm <count>', 'requests a minute')
    .option('--tpm <count>', 'tokens a minute')
    .option('--concurrent <count>', 'requests in progress at the same time')
    .option('--require <conditions>', 'facts of providers: region=eu; retention=0; training=no')
    .addOption(choice('--loops <action>', 'what is done when an agent repeats itself', [...LOOP_ACTIONS, 'any']))

export const withTags = (command: Command): Command =>
  command.option('--tag <name=value>', 'tag for budgets and reports; may be repeated', repeated)

/** What is restricted, without what no option names. */
export const restrictionsOf = (options: RestrictionOptions) => {
  const { models, routes, providers, styles, ips } = options
  const lists = { models, routes, providers, styles, ips }
  return {
    access: given(Object.fromEntries(Object.entries(lists).map(([dimension, value]) => [dimension, globList(value)]))),
    limits: given({
      requestsPerMinute: wholeNumber('--rpm', options.rpm),
      tokensPerMinute: wholeNumber('--tpm', options.tpm),
      concurrent: wholeNumber('--concurrent', options.concurrent),
    }),
    ...(options.require !== undefined && { require: requireOf(options.require) }),
    ...(options.loops !== undefined && { loops: options.loops === 'any' ? null : options.loops }),
  }
}

/** What `--require` states, with every fact: it replaces what was required before. */
const requireOf = (written: string): JsonObject => {
  const required = written === 'any' ? good(NO_REQUIRE) : parseRequire(written)
  if (!required.ok) throw new CliError(EXIT.usage, required.failure.message.replace(REQUIRE_HEADER, '--require'))
  return { ...required.value }
}

const isEmpty = (value: JsonObject): boolean => Object.keys(value).length === 0

/** The JSON Merge Patch of the options. `more`: further members. Throws `CliError` if nothing is to be changed. */
export const patchOf = (options: RestrictionOptions, more: JsonObject = {}): JsonObject => {
  const { access, limits, ...others } = restrictionsOf(options)
  const tags = Object.entries(tagsOf(options.tag)).map(([name, value]) => [name, value === '' ? null : value])
  const patch = {
    ...more,
    ...(!isEmpty(access) && { access }),
    ...(!isEmpty(limits) && { limits }),
    ...others,
    ...(tags.length > 0 && { tags: Object.fromEntries(tags) }),
  }
  if (isEmpty(patch)) throw new CliError(EXIT.usage, 'Name what is to be changed, such as --rpm 600. --help has all.')
  return patch
}

/** How an option takes a value away. */
export const REMOVAL = '"any" removes a restriction, "unlimited" a limit, and --tag name= a tag.'
