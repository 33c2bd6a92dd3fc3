/** What reads the configuration file. Loaded only if there is one, because the YAML parser and the schemas load slowly. */
import { accountsFrom } from './accounts.ts'
import { readFile } from './file.ts'
import { readTree } from './tree.ts'

export const fileReader = { readTree, readFile, accountsFrom }
export type FileReader = typeof fileReader
