/** Checks the text of a configuration file against the environment of this process, without applying it. */
import type { Config, FullConfig } from '../../core/config.ts'
import { environmentOf, type Loaded } from '../config/configure.ts'
import { describeChange } from '../config/describe.ts'
import type { Env } from '../config/env.ts'
import { loadTexts, readEnvironment, readTexts } from '../config/load.ts'
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

/**
 * Checks a text. It is never read with the values of the variables that it names: even the paths of changes would tell whether
 * a value is accepted somewhere, and so, guess by guess, what it is.
 */
export const checkConfig = async (text: string, { sources, running }: Configuration): Promise<ConfigCheck> => {
  const { fileReader } = await import('../config/file-reader.ts')
  const [present, env] = await Promise.all([readTexts(sources), readEnvironment(sources)])
  const presentText = present.file?.text ?? ''
  const placeholders = environmentOf(withPlaceholders(env, `${text}\n${presentText}`), undefined)
  const load = (of: string): Loaded =>
    loadTexts(
      {
        dotenv: undefined,
        file: { name: NAME, text: of, reader: fileReader },
        files: placeholderFiles(of),
        problems: [],
        warnings: [],
      },
      { env: placeholders, providers: sources.providers, stored: sources.stored },
    )
  const loaded = load(text)
  if (!loaded.ok) return { ok: false, problems: loaded.problems, warnings: loaded.warnings, changes: [], config: null }
  // The file that runs, with the same placeholders; what runs itself, if the file has changed since.
  const runs = load(presentText)
  const isPresent = runs.ok && isRunning(loadTexts(present, sources), running())
  const changes = describeChange(isPresent ? runs.config : running(), loaded.config).map(pathIn)
  return { ok: true, problems: [], warnings: loaded.warnings, changes: [...new Set(changes)], config: loaded.config }
}

const isRunning = (loaded: Loaded, running: FullConfig): boolean =>
  loaded.ok && describeChange(running, loaded.config).length === 0

/** `circuit.timeout` of `circuit.timeout: 30000 → 20000`: values may come from variables. */
const pathIn = (line: string): string => line.split(': ', 1)[0] ?? ''

/** Values that are certainly no secret: numbers and words of settings. */
const HARMLESS = /^(?:[0-9]{1,7}|true|false|[a-z-]{1,12})$/

/** Files that the text names are not read: a client must not find out which ones exist. */
const placeholderFiles = (text: string): SecretFiles =>
  new Map(secretPaths({}, text).map((path, index) => [path, { text: `placeholder-for-the-file-${index}` }]))

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
          : `placeholder-for-the-value-of-${name}`,
    ]),
  )
}
