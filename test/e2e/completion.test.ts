// biome-ignore-all lint/suspicious/noTemplateCurlyInString: shell variables are written
/** The completion scripts in the shells themselves: verbs, subcommands and options. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { describe, test } from 'node:test'
import { verb } from './support/verb.ts'

/** Prints the words that a shell offers for the words `$@`, the last of which is being typed. */
const ASKS = {
  bash: [
    '--norc',
    '-c',
    'eval "$SCRIPT"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _headgate; printf "%s\\n" "${COMPREPLY[@]}"',
    'x',
  ],
  zsh: [
    '-f',
    '-c',
    'compdef() { :; }; compadd() { shift; print -l -- ${(M)@:#${words[CURRENT]}*}; }; eval "$SCRIPT"; words=("$@"); CURRENT=$#; _headgate',
    'x',
  ],
  fish: ['--no-config', '-c', 'echo $SCRIPT | source; complete -C (string join -- " " $argv)'],
} as const

const CASES = [
  ['headgate incid', ['incidents']],
  ['headgate keys rot', ['rotate']],
  ['headgate providers dis', ['disable']],
  ['headgate usage export --lev', ['--level']],
  ['headgate --json logs --end', ['--end-user']],
  ['headgate keys create --conc', ['--concurrent']],
] as const

for (const [shell, [...args]] of Object.entries(ASKS)) {
  const skip = spawnSync(shell, ['--version']).status === 0 ? false : `no ${shell} here`
  describe(`completion of ${shell}`, { skip }, () => {
    for (const [line, wanted] of CASES)
      test(line, async () => {
        const { stdout } = await verb(['completion', shell])
        const env = { PATH: process.env.PATH, HOME: '/nonexistent', SCRIPT: stdout }
        const { stdout: found, stderr } = spawnSync(shell, [...args, ...line.split(' ')], { env, encoding: 'utf8' })
        const words = found.split('\n').map((one) => one.split('\t')[0] ?? '')
        assert.deepEqual(words.filter(Boolean), wanted, stderr)
      })
  })
}
