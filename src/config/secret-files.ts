/**
 * Secrets in files: `${file:/run/secrets/x}` in the configuration file, and `OPENAI_API_KEY_FILE=/run/secrets/x` instead of
 * `OPENAI_API_KEY`. A newline at the end is dropped. This part does no I/O.
 */
import type { Providers } from '../core/provider.ts'
import { envPrefix } from '../records/entities/ids.ts'
import type { Env } from './env.ts'
import { type Problem, quote } from './problem.ts'

/** Bytes of a secret's file, and the number of such files. */
export const MAX_SECRET_FILE = 65_536
export const MAX_SECRET_FILES = 200

/** The contents of a file, or why there is none: `does not exist`. */
export type SecretFile = { readonly text: string } | { readonly fault: string }

/** By path as written. Without an entry: not read. */
export type SecretFiles = ReadonlyMap<string, SecretFile>

export const NO_FILES: SecretFiles = new Map()

/** The path of `${file:/run/secrets/x}`, from what is between the braces. */
export const pathInReference = (reference: string): string | undefined =>
  reference.startsWith('file:') ? reference.slice('file:'.length).trim() : undefined

/** Also matches a reference without its brace, up to the end, so that the time is linear. */
const REFERENCES = /\$\{([^}]*)(\}?)/g
const referencesIn = (text: string): readonly string[] =>
  [...text.matchAll(REFERENCES)].flatMap(([, name = '', end]) => (end === '' ? [] : name))

/** Variables that hold a secret in any installation. */
const SECRET_VARIABLE =
  /^(?:AUTH_KEYS|AUTH_ADMIN|AUTH_PEPPER|SSO_SECRET|DATABASE_URL|DATABASE_READ_URL|REDIS_URL|NETWORK_PROXY|HTTPS?_PROXY|ALL_PROXY|OTEL_EXPORTER_OTLP_(?:TRACES_|METRICS_)?HEADERS|[A-Z][A-Z0-9_]*_API_KEY(?:_[1-9][0-9]{0,3})?)$/
const SUFFIX = '_FILE'

/** Variables that are set by a file, by name without `_FILE`. `text`: the configuration file. */
const fileVariables = (env: Env, text: string): ReadonlyMap<string, string> => {
  const named = new Set(referencesIn(text))
  return new Map(
    Object.entries(env).flatMap(([name, path]) => {
      if (!name.endsWith(SUFFIX) || !path?.trim()) return []
      const variable = name.slice(0, -SUFFIX.length)
      return SECRET_VARIABLE.test(variable) || named.has(variable) ? [[variable, path.trim()]] : []
    }),
  )
}

/** The paths of all files with secrets. */
export const secretPaths = (env: Env, text: string): readonly string[] => [
  ...new Set([
    ...fileVariables(env, text).values(),
    ...referencesIn(text).flatMap((one) => pathInReference(one) ?? []),
  ]),
]

export type FilledEnv = { readonly env: Env; readonly problems: readonly Problem[] }

/** The environment with the contents of files in place of the variables that name them. */
export const withFileVariables = (env: Env, text: string, files: SecretFiles, providers: Providers): FilledEnv => {
  const variables = fileVariables(env, text)
  if (variables.size === 0) return { env, problems: [] }
  const problems: Problem[] = []
  const filled: Record<string, string | undefined> = Object.assign(Object.create(null), env)
  for (const [name, path] of variables) {
    const where = name + SUFFIX
    const file = files.get(path)
    if (!file) continue
    delete filled[where]
    if (env[name]?.trim())
      problems.push({ where, found: `a file, although ${name} is set`, allowed: `${name} or ${where}, not both` })
    else if ('text' in file) filled[name] = file.text
    // A key of another program may be in a file that only that program can read.
    else if (isOwn(name, env, providers))
      problems.push({ where, found: `${quote(path)}, which ${file.fault}`, allowed: ALLOWED_FILE })
  }
  return { env: filled, problems }
}

/** What a path may name. */
export const ALLOWED_FILE = `a file that can be read, at most ${MAX_SECRET_FILE} bytes`

const isOwn = (name: string, env: Env, providers: Providers): boolean => {
  const [, head] = /^(.+)_API_KEY(?:_[0-9]+)?$/.exec(name) ?? []
  if (head === undefined || env[`${head}_BASE_URL`] !== undefined) return true
  const prefixes = [...providers].flatMap(([key, { name: own, aliases = [] }]) => [key, own, ...aliases].map(envPrefix))
  return prefixes.some((prefix) => head === prefix || head.startsWith(`${prefix}_`))
}
