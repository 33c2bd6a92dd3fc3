// biome-ignore-all lint/suspicious/noTemplateCurlyInString: shell variables are written
/** The completion scripts in the shells themselves: verbs, subcommands, options, their values and names of files. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { verb } from './support/verb.ts'

/** Prints the words that a shell offers for the words `$@`, the last of which is being typed. */
const ASKS = {
  bash: [
    '--norc',
    '-c',
    // Without words readline offers files, unless the function says otherwise.
    'compopt() { FILES=no; }; eval "$SCRIPT"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _headgate; printf "%s\\n" "${COMPREPLY[@]}"; if [ -z "$FILES$COMPREPLY" ]; then compgen -f -- "${COMP_WORDS[COMP_CWORD]}"; fi',
    'x',
  ],
  zsh: [
    '-f',
    '-c',
    'compdef() { :; }; compset() { words[CURRENT]=${words[CURRENT]#*=}; }; _files() { print -l -- ${words[CURRENT]}*; }; compadd() { shift; print -l -- ${(M)@:#${words[CURRENT]}*}; }; eval "$SCRIPT"; words=("$@"); CURRENT=$#; _headgate',
    'x',
  ],
  fish: ['--no-config', '-c', 'echo $SCRIPT | source; complete -C (string join -- " " $argv)'],
} as const

const ROOT = join(import.meta.dirname, '..', '..')
/** The words of a line as the shell has them. */
const wordsOf = (shell: string, line: string) => line.split(shell === 'bash' ? / |(?==)|(?<==)/ : ' ')

const CASES = [
  ['headgate incid', ['incidents']],
  ['headgate keys rot', ['rotate']],
  ['headgate providers dis', ['disable']],
  ['headgate usage export --lev', ['--level']],
  ['headgate --json logs --end', ['--end-user']],
  ['headgate keys create --conc', ['--concurrent']],
  ['headgate usage export --format ', ['csv', 'jsonl']],
  ['headgate usage export --level=r', ['request']],
  ['headgate budgets create month --period qu', ['quarter']],
  ['headgate --url http://127.0.0.1:1 adopt bu', ['budget']],
  ['headgate connect cla', ['claude']],
  ['headgate keys create --models ', []],
  ['headgate usage export -o CHANGE', ['CHANGELOG.md']],
  ['headgate restore CHANGE', ['CHANGELOG.md']],
] as const

for (const [shell, [...args]] of Object.entries(ASKS)) {
  const skip = spawnSync(shell, ['--version']).status === 0 ? false : `no ${shell} here`
  describe(`completion of ${shell}`, { skip }, () => {
    for (const [line, wanted] of CASES)
      test(line, async () => {
        const { stdout } = await verb(['completion', shell])
        const env = { PATH: process.env.PATH, HOME: '/nonexistent', SCRIPT: stdout }
        const { stdout: found, stderr } = spawnSync(shell, [...args, ...wordsOf(shell, line)], {
          cwd: ROOT,
          env,
          encoding: 'utf8',
        })
        const words = found.split('\n').map((one) => one.split('\t')[0]?.replace(/^--level=/, '') ?? '')
        assert.deepEqual(words.filter(Boolean), wanted, stderr)
      })
  })
}
