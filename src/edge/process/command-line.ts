/** The command line. Nearly all settings are environment variables or lines of a file. */
import { nearest } from '../../core/nearest.ts'
import { launchRows, settingRows } from '../config/rows.ts'

/** Output, its stream and the exit code: 0, or 2 for unknown arguments. */
export type CommandOutput = { readonly to: 'stdout' | 'stderr'; readonly text: string; readonly code: 0 | 2 }

const HELP = `One address for every text-generation model.

  headgate              start the gateway on port 3000
  headgate --version    print the version
  headgate --help       print this help

Settings come from environment variables, .env or headgate.yaml in the working directory:

  PORT=4000 OPENAI_API_KEY=… ANTHROPIC_API_KEY=… headgate

Without a provider the built-in demo answers. Reference of all settings: docs/configuration.md
`

/** The output for these arguments; null to start the gateway. Values are not repeated: they may be keys. */
export const runCommand = (words: readonly string[], version: string): CommandOutput | null => {
  const [first] = words
  if (first === undefined || (first === 'start' && words.length === 1)) return null
  if (words.includes('--help') || words.includes('-h')) return { to: 'stdout', text: HELP, code: 0 }
  if (words.length === 1 && first === '--version') return { to: 'stdout', text: `${version}\n`, code: 0 }
  const option = words.map((word) => /^--?[A-Za-z][A-Za-z0-9_-]*/.exec(word)?.[0]).find((word) => word !== undefined)
  const names = [...launchRows, ...settingRows].map(({ env }) => env)
  const [name] = option === undefined ? [] : nearest(option.replace(/^-+/, ''), names)
  const hint = name === undefined ? 'Run headgate --help.' : `Set the environment variable instead: ${name}=… headgate`
  return { to: 'stderr', text: `headgate: Unknown ${option ? `option ${option}` : 'argument'}. ${hint}\n`, code: 2 }
}
