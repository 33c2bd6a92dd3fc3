/** Applies changes to the text of a configuration file of any format. */
import type { Json } from '../core/json.ts'
import type { ClientRow, ConfigChange } from './clients.ts'
import { JsonTextError, readJsonText, setJson } from './edit-json.ts'
import { setToml, TomlTextError } from './edit-toml.ts'

const envLine = ({ path, value }: ConfigChange): string => {
  const text = String(value)
  return `${path.join('_')}=${/^[\w.:/-]*$/.test(text) ? text : `'${text}'`}`
}

/** The lines of variables for a client without a file. */
export const envLines = (changes: readonly ConfigChange[]): readonly string[] => changes.map(envLine)

const setEnv = (text: string, change: ConfigChange): string => {
  const newline = text.includes('\r\n') ? '\r\n' : '\n'
  const lines = text === '' ? [] : text.replace(/\r?\n$/, '').split(/\r?\n/)
  const name = change.path.join('_')
  const pattern = new RegExp(`^\\s*(?:export\\s+)?${name}\\s*=`)
  const at = lines.findLastIndex((line) => pattern.test(line))
  if (at === -1) lines.push(envLine(change))
  else lines[at] = envLine(change)
  return lines.join(newline) + newline
}

const setAll = (
  text: string,
  changes: readonly ConfigChange[],
  set: (text: string, path: readonly string[], value: Json) => string,
) => changes.reduce((before, { path, value }) => set(before, path, value), text)

/** The text of a file cannot be changed; the message states why. */
export class ConfigTextError extends Error {}

/** Returns the changed text. Throws `ConfigTextError` if the text cannot be read as its format. */
export const editConfig = async (
  text: string,
  { format }: Pick<ClientRow, 'format'>,
  changes: readonly ConfigChange[],
): Promise<string> => {
  try {
    if (format === 'env') return changes.reduce(setEnv, text)
    if (format === 'toml') return setAll(text, changes, setToml)
    if (format === 'yaml') return (await import('./edit-yaml.ts')).setYaml(text, changes)
    const edited = setAll(text, changes, setJson)
    readJsonText(edited)
    return edited
  } catch (error) {
    const isExpected = error instanceof JsonTextError || error instanceof TomlTextError
    if (!isExpected && !(error instanceof Error && error.name === 'YamlTextError')) throw error
    throw new ConfigTextError(error.message)
  }
}
