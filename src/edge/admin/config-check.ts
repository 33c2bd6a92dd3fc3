/** Checks the text of a configuration file against the environment of this process, without applying it. */
import type { Config, FullConfig } from '../../core/config.ts'
import { environmentOf, type Loaded } from '../config/configure.ts'
import { describeChange } from '../config/describe.ts'
import type { Env } from '../config/env.ts'
import { loadTexts, readEnvironment } from '../config/load.ts'
import type { Problem } from '../config/problem.ts'
import { type SecretFiles, secretPaths } from '../config/secret-files.ts'
import type { Configuration } from './deps.ts'

type ConfigCheck = {
  readonly ok: boolean
  readonly problems: readonly Problem[]
  readonly warnings: readonly string[]
  /** Paths. */
  readonly changes: readonly string[]
  /** Null: it has problems. */
  readonly config: Config | null
}

/** The name that problems give for the file. */
const NAME = 'headgate.yaml'

/** Checks a text. No value of a variable that the text names can appear in the result. */
export const checkConfig = async (text: string, { sources, running }: Configuration): Promise<ConfigCheck> => {
  const { fileReader } = await import('../config/file-reader.ts')
  const load = (env: Env): Loaded =>
    loadTexts(
      {
        dotenv: undefined,
        file: { name: NAME, text, reader: fileReader },
        files: placeholderFiles(text),
        problems: [],
        warnings: [],
      },
      { env: environmentOf(env, undefined), providers: sources.providers, stored: sources.stored },
    )
  const env = await readEnvironment(sources)
  const loaded = load(withPlaceholders(env, text))
  if (!loaded.ok) return { ok: false, problems: loaded.problems, warnings: loaded.warnings, changes: [], config: null }
  const changedIn = (config: FullConfig) => new Set(describeChange(running(), config).map(pathIn))
  const real = load(env)
  const changed = real.ok ? changedIn(real.config) : null
  // With a placeholder every value differs from the running one. The paths are those of placeholders: a name may be a variable.
  const changes = [...changedIn(loaded.config)].filter(
    (path) => path.includes(PLACEHOLDER) || changed?.has(path) !== false,
  )
  return { ok: true, problems: [], warnings: loaded.warnings, changes, config: loaded.config }
}

/** `circuit.timeout` of `circuit.timeout: 30000 → 20000`: values may come from variables. */
const pathIn = (line: string): string => line.split(': ', 1)[0] ?? ''

const PLACEHOLDER = 'placeholder-for-the'

/** Values that are certainly no secret: numbers and words of settings. */
const HARMLESS = /^(?:[0-9]{1,7}|true|false|[a-z-]{1,12})$/

/** Files that the text names are not read: a client must not find out which ones exist. */
const placeholderFiles = (text: string): SecretFiles =>
  new Map(secretPaths({}, text).map((path, index) => [path, { text: `${PLACEHOLDER}-file-${index}` }]))

/** The environment, with a placeholder for each variable that the text names, unless its value cannot be a secret. */
const withPlaceholders = (env: Env, text: string): Env => {
  const named = new Set([...text.matchAll(/\$\{([A-Za-z_][A-Za-z0-9_]*)/g)].map(([, name]) => name))
  return Object.fromEntries(
    Object.entries(env).map(([name, value]) => [
      name,
      value === undefined || !named.has(name) || HARMLESS.test(value)
        ? value
        : /^https?:/.test(value)
          ? `https://${name.toLowerCase().replaceAll('_', '-')}.invalid`
          : `${PLACEHOLDER}-value-of-${name}`,
    ]),
  )
}
