/** `headgate completion`: completion of verbs, subcommands and options for a shell. */
import type { Command } from 'commander'
import type { DefineVerb } from '../cli.ts'
import { CliError, EXIT } from '../cli.ts'
import { type CompletedCommand, SHELLS } from '../completion.ts'

export const define: DefineVerb = (command, cli) => {
  command
    .argument('<shell>', `one of ${Object.keys(SHELLS).join(', ')}`)
    .addHelpText(
      'after',
      `
In ~/.bashrc, and with zsh in ~/.zshrc: source <(headgate completion bash)

In ~/.config/fish/config.fish: headgate completion fish | source

Example: headgate completion bash > ~/.local/share/bash-completion/completions/headgate`,
    )
    .action(async (name: string) => {
      const script = Object.hasOwn(SHELLS, name) ? SHELLS[name as keyof typeof SHELLS] : undefined
      if (!script) throw new CliError(EXIT.usage, `Unknown shell. Known: ${Object.keys(SHELLS).join(', ')}.`)
      const { answer, wholeProgram } = cli()
      const text = script(commandsOf(await wholeProgram(), ''))
      answer({ name, script: text }, () => [text])
    })
}

/** The program and all commands below it. */
const commandsOf = (command: Command, place: string): readonly CompletedCommand[] => {
  const subcommands = command.commands.map((one) => ({ name: one.name(), about: one.summary() || one.description() }))
  const options = command.options.flatMap(({ long, description, required }) =>
    long ? [{ name: long, about: description, hasValue: required }] : [],
  )
  return [
    { place, subcommands, options },
    ...command.commands.flatMap((one) => commandsOf(one, `${place} ${one.name()}`)),
  ]
}
