/** The running configuration as the text of a file, if loading that text gives the same. */

import { configYaml } from '../../config/config-yaml.ts'
import { describeChange } from '../../config/describe.ts'
import { loadTexts, readEnvironment, readTexts } from '../../config/load.ts'
import type { Directory } from '../../core/accounts.ts'
import type { Configuration } from './deps.ts'

export type ConfigText = {
  /** Null: it cannot be written; `differences` has what would be lost. */
  readonly text: string | null
  /** Variables that the text needs and the environment does not have. */
  readonly variables: readonly string[]
  /** Lines without secrets. */
  readonly differences: readonly string[]
}

const NAME = 'headgate.yaml'

/** Writes the text, loads it in the environment of this process, and compares both. */
export const configText = async (
  { sources, running }: Pick<Configuration, 'sources' | 'running'>,
  names: Pick<Directory, 'teams' | 'keys'>,
): Promise<ConfigText> => {
  const [{ fileReader }, texts, env] = await Promise.all([
    import('../../config/file-reader.ts'),
    readTexts(sources),
    readEnvironment(sources),
  ])
  // PROVIDERS may name providers of the file.
  const { PROVIDERS: _, ...others } = env
  const bare = loadTexts({ ...texts, dotenv: undefined, file: undefined, problems: [] }, { ...sources, env: others })
  const present = texts.file?.text ?? ''
  const { text, missing } = configYaml(running(), { bare: bare.ok ? bare.config : null, env, present, names })
  const variables = [...missing.keys()]
  const loaded = loadTexts(
    { ...texts, file: { name: NAME, text, reader: fileReader }, problems: [] },
    { ...sources, env: { ...sources.env, ...Object.fromEntries(missing) } },
  )
  const differences = loaded.ok
    ? describeChange(running(), loaded.config)
    : loaded.problems.map(({ where, what, allowed }) => `${what ?? where}: needs ${allowed}`)
  return { text: differences.length === 0 ? text : null, variables, differences }
}
