/**
 * Decides from the arguments whether this process serves or runs a verb. It loads no package, because every start with an
 * option goes through it; `headgate` without arguments does not load it either.
 */

import { START_OPTIONS } from './start-options.ts'

/** What the arguments request. */
export type LaunchCommand =
  /** Start the gateway with these environment variables in addition. */
  | { readonly kind: 'start'; readonly env: Readonly<Record<string, string>> }
  | { readonly kind: 'version' }
  /** Invalid options of `start`; the text is one line. */
  | { readonly kind: 'refuse'; readonly message: string }
  /** A verb or help, handled by `runCli`. */
  | { readonly kind: 'verb' }

const HELP = new Set(['--help', '-h'])

/** Interprets the arguments. Values of unknown options are not repeated in messages: they may be keys. */
export const readCommand = async (words: readonly string[]): Promise<LaunchCommand> => {
  const [first] = words
  if (words.length === 1 && (first === '--version' || first === '-V')) return { kind: 'version' }
  if (words.some((word) => HELP.has(word))) return { kind: 'verb' }
  if (first === 'start') return await readStart(words.slice(1))
  return first?.startsWith('-') && !(await hasVerb(words)) ? await readStart(words) : { kind: 'verb' }
}

/** Whether a verb follows the options, as in `headgate --json status`. */
const hasVerb = async (words: readonly string[]): Promise<boolean> => {
  const others = words.filter((word) => !word.startsWith('-'))
  if (others.length === 0) return false
  const { VERBS } = await import('./verbs.ts')
  return VERBS.some(({ name }) => others.includes(name))
}

const readStart = async (words: readonly string[]): Promise<LaunchCommand> => {
  const env: Record<string, string> = {}
  for (let at = 0; at < words.length; at++) {
    const word = words[at] ?? ''
    const [name = '', ...rest] = word.split('=')
    const option = START_OPTIONS.find(({ flag }) => flag === name)
    if (!option) return { kind: 'refuse', message: await unknownMessage(word) }
    const value = rest.length > 0 ? rest.join('=') : words[++at]
    if (value === undefined || value === '' || (rest.length === 0 && value.startsWith('--')))
      return { kind: 'refuse', message: `${name} needs a value: headgate start ${name} ${option.value}` }
    env[option.env] = value
  }
  return { kind: 'start', env }
}

const unknownMessage = async (word: string): Promise<string> => {
  const { nearest } = await import('../core/nearest.ts')
  const name = /^--?[A-Za-z][A-Za-z0-9_-]*/.exec(word)?.[0]
  if (name === undefined) return 'Unknown argument of start. Run headgate start --help.'
  const flags = START_OPTIONS.map(({ flag }) => flag)
  const [flag] = nearest(name, flags)
  if (flag !== undefined) return `Unknown option ${name}. Did you mean ${flag}?`
  const { launchRows, settingRows } = await import('../config/rows.ts')
  const variables = [...launchRows, ...settingRows].map(({ env }) => env)
  const [variable] = nearest(name.replace(/^-+/, ''), variables)
  const hint =
    variable === undefined
      ? 'Run headgate start --help.'
      : `Set the environment variable instead: ${variable}=… headgate`
  return `Unknown option ${name}. ${hint}`
}
