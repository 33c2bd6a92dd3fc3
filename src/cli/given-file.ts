/** Files that are given as arguments; `-` is the standard input. */
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { parse } from 'yaml'
import { isObject, type JsonObject } from '../core/json.ts'
import { type Cli, CliError, EXIT } from './cli.ts'

/** The text of a file. Throws `CliError` (usage) if it cannot be read. */
export const readGiven = async ({ host }: Cli, file: string): Promise<string> => {
  const reading = file === '-' ? text(process.stdin) : readFile(resolve(host.folder, file), 'utf8')
  return await reading.catch((error: NodeJS.ErrnoException) => {
    throw new CliError(EXIT.usage, `${file} cannot be read: ${error.code ?? error.message}.`)
  })
}

/** The object in a file of YAML or JSON. Throws `CliError` (usage) for other contents. */
export const readGivenObject = async (cli: Cli, file: string): Promise<JsonObject> => {
  const source = await readGiven(cli, file)
  let value: unknown
  try {
    value = parse(source)
  } catch (error) {
    const [problem = ''] = (error instanceof Error ? error.message : 'unknown').split('\n')
    throw new CliError(EXIT.usage, `${file} cannot be read as YAML: ${problem.replace(/:$/, '')}.`)
  }
  if (isObject(value)) return value
  throw new CliError(EXIT.usage, `${file} must be an object in YAML or JSON.`)
}
