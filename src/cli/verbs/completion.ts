/** `headgate completion`: completion of verbs, subcommands, options and their values for a shell. */
import { Argument, type Command, type Option } from 'commander'
import type { DefineVerb } from '../cli.ts'
import { type CompletedCommand, type CompletedValue, SHELLS } from '../completion.ts'

export const define: DefineVerb = (command, cli) => {
  command
    .addArgument(new Argument('<shell>', 'shell that reads the script').choices(Object.keys(SHELLS)))
    .addHelpText(
      'after',
      `
In ~/.bashrc, and with zsh in ~/.zshrc: source <(headgate completion bash)

In ~/.config/fish/config.fish: headgate completion fish | source

Example: headgate completion bash > ~/.local/share/bash-completion/completions/headgate`,
    )
    .action(async (name: keyof typeof SHELLS) => {
      const { answer, wholeProgram } = cli()
      const text = SHELLS[name](commandsOf(await wholeProgram(), ''))
      answer({ name, script: text }, () => [text])
    })
}

/** Names of values that are files. */
const FILE = /^(?:file|path)s?$/

const completedBy = (name: string, choices: readonly string[] | undefined): CompletedValue =>
  choices ?? (FILE.test(name) ? 'file' : 'any')

const optionOf = ({ long, short, flags, description, required, optional, argChoices }: Option) => {
  const [, name = ''] = /[<[]([a-z]+)/.exec(flags) ?? []
  return {
    name: long ?? '',
    short: short ?? null,
    about: description,
    value: required || optional ? completedBy(name, argChoices) : null,
  }
}

/** The program and all commands below it. */
const commandsOf = (command: Command, place: string): readonly CompletedCommand[] => {
  const subcommands = command.commands.map((one) => ({ name: one.name(), about: one.summary() || one.description() }))
  const options = command.options.filter(({ long }) => long).map(optionOf)
  const values = command.registeredArguments.map((one) => completedBy(one.name(), one.argChoices))
  return [
    { place, subcommands, options, values },
    ...command.commands.flatMap((one) => commandsOf(one, `${place} ${one.name()}`)),
  ]
}
