/** The words behind `headgate`. There is little to say there: settings are variables, and lines of a file. */
import { nearest } from '../core/nearest.ts'
import { launchRows, settingRows } from './config/rows.ts'

/** What is said, where, and what the process ends with: 0, or 2 for what is not understood. */
export type Said = { readonly to: 'stdout' | 'stderr'; readonly text: string; readonly code: 0 | 2 }

const HELP = `One address for every text-generation model.

  headgate              starts the gateway, on port 3000
  headgate --version    says which one it is
  headgate --help       says this

Everything is set by environment variables, a file .env, or headgate.yaml, in the folder it is started in:

  PORT=4000 OPENAI_API_KEY=… ANTHROPIC_API_KEY=… headgate

Without a provider the built-in demo answers. All settings: docs/configuration.md
`

/** Null: there is nothing to say, and it starts. No value is said again, it may be a key. */
export const answerTo = (words: readonly string[], version: string): Said | null => {
  const [first] = words
  if (first === undefined || (first === 'start' && words.length === 1)) return null
  if (words.includes('--help') || words.includes('-h')) return { to: 'stdout', text: HELP, code: 0 }
  if (words.length === 1 && first === '--version') return { to: 'stdout', text: `${version}\n`, code: 0 }
  const option = words.map((word) => /^--?[A-Za-z][A-Za-z0-9_-]*/.exec(word)?.[0]).find((word) => word !== undefined)
  const names = [...launchRows, ...settingRows].map(({ env }) => env)
  const [name] = option === undefined ? [] : nearest(option.replace(/^-+/, ''), names)
  const hint = name === undefined ? 'See headgate --help.' : `That is a variable: ${name}=… headgate`
  return { to: 'stderr', text: `headgate: there is no ${option ?? 'such word'}. ${hint}\n`, code: 2 }
}
