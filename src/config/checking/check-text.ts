/** Checks the text of a configuration file against an environment, without its values. */
import type { Providers } from '../../core/provider.ts'
import { environmentOf, type Loaded } from '../configure.ts'
import { describeChange } from '../describe.ts'
import type { Env } from '../env.ts'
import { fileReader } from '../file-reader.ts'
import { loadTexts, readEnvironment, readTexts } from '../load.ts'
import type { Problem } from '../problem.ts'
import { type SecretFiles, secretPaths } from '../secret-files.ts'
import type { Tree } from '../tree.ts'
import { type CheckedParts, type CheckedText, type CheckTask, NAME } from './check-task.ts'

/** Problems, and warnings, of an answer. */
const MAX_LISTED = 200
/** Values of a configuration that is also made in the process that serves requests. */
const MAX_MADE = 2_000

/**
 * Checks a text. It is never read with the values of the variables that it names: even the paths of changes would tell whether
 * a value is accepted somewhere, and so, guess by guess, what it is.
 */
export const checkText = async ({ text, stored, ...from }: CheckTask, providers: Providers): Promise<CheckedText> => {
  const sources = { ...from, providers }
  const [present, real] = await Promise.all([readTexts(sources), readEnvironment(sources)])
  const presentText = present.file?.text ?? ''
  const env = environmentOf(withPlaceholders(real, `${text}\n${presentText}`), undefined)
  const load = (of: string): Loaded & { readonly tree: Tree | undefined; readonly files: SecretFiles } => {
    let tree: Tree | undefined
    const readTree: typeof fileReader.readTree = (...written) => {
      tree = fileReader.readTree(...written)
      return tree
    }
    const files = placeholderFiles(of)
    const file = { name: NAME, text: of, reader: { ...fileReader, readTree } }
    const loaded = loadTexts(
      { dotenv: undefined, file, files, problems: [], warnings: [] },
      { env, providers, stored: () => stored },
    )
    return { ...loaded, tree, files }
  }
  const loaded = load(text)
  const warnings = loaded.warnings.slice(0, MAX_LISTED)
  if (!loaded.ok) return { ok: false, problems: listed(loaded.problems), warnings }
  const runs = load(presentText)
  const changes = runs.ok ? describeChange(runs.config, loaded.config).map(pathIn) : null
  return { ok: true, warnings, changes, parts: partsOf(loaded.tree, { env, files: loaded.files }) }
}

const partsOf = (tree: Tree | undefined, more: Omit<CheckedParts, 'tree'>): CheckedParts | null => {
  if (!tree?.ok || tree.count > MAX_MADE) return null
  const { placeOf: _, ...plain } = tree
  return { tree: plain, ...more }
}

const listed = (problems: readonly Problem[]): readonly Problem[] => {
  const more = problems.length - MAX_LISTED
  if (more <= 0) return problems
  return [
    ...problems.slice(0, MAX_LISTED),
    { where: NAME, found: `${more} more problems`, allowed: `none; the first ${MAX_LISTED} are listed` },
  ]
}

/** `circuit.timeout` of `circuit.timeout: 30000 → 20000`: values may come from variables. */
export const pathIn = (line: string): string => line.split(': ', 1)[0] ?? ''

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
