/** Applies changes to the text of a configuration file of any format. */
import type { Json } from '../core/json.ts'
import type { ClientRow, ConfigChange } from './clients.ts'
import { JsonTextError, readJsonText, setJson } from './edit-json.ts'
import { setToml, TomlTextError, undoToml } from './edit-toml.ts'
import { undoneJson, valuesIn } from './undo-json.ts'

const envLine = ({ path, value }: ConfigChange): string => {
  const text = String(value)
  return `${path.join('_')}=${/^[\w.:/-]*$/.test(text) ? text : `'${text}'`}`
}

/** The lines of variables for a client without a file. */
export const envLines = (changes: readonly ConfigChange[]): readonly string[] => changes.map(envLine)

/** The line that sets the variable of a change. */
const assignmentOf = ({ path }: ConfigChange): RegExp => new RegExp(`^\\s*(?:export\\s+)?${path.join('_')}\\s*=`)

const setEnv = (text: string, change: ConfigChange): string => {
  const newline = text.includes('\r\n') ? '\r\n' : '\n'
  const lines = text === '' ? [] : text.replace(/\r?\n$/, '').split(/\r?\n/)
  const pattern = assignmentOf(change)
  const at = lines.findLastIndex((line) => pattern.test(line))
  if (at === -1) lines.push(envLine(change))
  else lines[at] = envLine(change)
  return lines.join(newline) + newline
}

/** The line of `original` in place of one that was written. */
const undoEnv = (text: string, original: string, change: ConfigChange): string => {
  const newline = text.includes('\r\n') ? '\r\n' : '\n'
  const lines = text.split(/\r?\n/)
  const at = lines.lastIndexOf(envLine(change))
  if (at === -1) return text
  const pattern = assignmentOf(change)
  const old = original.split(/\r?\n/).findLast((line) => pattern.test(line))
  return [...lines.slice(0, at), ...(old === undefined ? [] : [old]), ...lines.slice(at + 1)].join(newline)
}

const setAll = (
  text: string,
  changes: readonly ConfigChange[],
  set: (text: string, path: readonly string[], value: Json) => string,
) => changes.reduce((before, { path, value }) => set(before, path, value), text)

/** The text of a file cannot be changed; the message states why. */
export class ConfigTextError extends Error {}

/** Runs an edit. Throws `ConfigTextError` if a text cannot be read as its format. */
const edit = async (run: () => string | Promise<string>): Promise<string> => {
  try {
    return await run()
  } catch (error) {
    const isExpected = error instanceof JsonTextError || error instanceof TomlTextError
    if (!isExpected && !(error instanceof Error && error.name === 'YamlTextError')) throw error
    throw new ConfigTextError(error.message)
  }
}

/** Returns the changed text. Throws `ConfigTextError` if the text cannot be read as its format. */
export const editConfig = (
  text: string,
  { format }: Pick<ClientRow, 'format'>,
  changes: readonly ConfigChange[],
): Promise<string> =>
  edit(async () => {
    if (format === 'env') return changes.reduce(setEnv, text)
    if (format === 'toml') return setAll(text, changes, setToml)
    if (format === 'yaml') return (await import('./edit-yaml.ts')).setYaml(text, changes)
    const edited = setAll(text, changes, setJson)
    readJsonText(edited)
    return edited
  })

/**
 * Returns the text with the values of `original` in place of those of the changes. Values that were changed since stay. Throws
 * `ConfigTextError` if a text cannot be read as its format.
 */
export const undoConfig = (
  text: string,
  original: string,
  { format }: Pick<ClientRow, 'format'>,
  changes: readonly ConfigChange[],
): Promise<string> =>
  edit(async () => {
    if (format === 'env') return changes.reduce((now, change) => undoEnv(now, original, change), text)
    if (format === 'toml') return setAll(text, changes, (now, path, value) => undoToml(now, original, path, value))
    if (format === 'yaml') return (await import('./edit-yaml.ts')).undoYaml(text, original, changes)
    return undoneJson(text, readJsonText(original || '{}'), valuesIn(changes))
  })
