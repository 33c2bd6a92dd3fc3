// biome-ignore-all lint/suspicious/noTemplateCurlyInString: shell variables are written
/** Completion scripts of shells, written from the commands of the program. */

/** `place`: the words that lead to it, each after a blank: ` keys create`; empty for the program. */
export type CompletedCommand = {
  readonly place: string
  readonly subcommands: readonly { readonly name: string; readonly about: string }[]
  readonly options: readonly { readonly name: string; readonly about: string; readonly hasValue: boolean }[]
}

type Commands = readonly CompletedCommand[]

/** A text in single quotes, for POSIX shells. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
const namesOf = (list: readonly { readonly name: string }[]): string => list.map(({ name }) => name).join(' ')

/** The subcommands and then all words of each place, as branches of a `case`. */
const branches = (commands: Commands, words: (command: CompletedCommand) => string): readonly string[] =>
  commands
    .filter((command) => words(command) !== '')
    .map((command) => `    ${quoted(command.place)}) echo ${quoted(words(command))} ;;`)

const globals = (commands: Commands): string => namesOf(commands[0]?.options ?? [])

/** Functions of bash and zsh: the subcommands of a place, and all words at it. */
const functions = (commands: Commands): readonly string[] => [
  '_headgate_subcommands() {',
  '  case "$1" in',
  ...branches(commands, ({ subcommands }) => namesOf(subcommands)),
  '  esac',
  '}',
  '_headgate_words() {',
  '  case "$1" in',
  ...branches(commands, ({ place, subcommands, options }) =>
    [namesOf(subcommands), namesOf(options), place === '' ? '' : globals(commands)].filter(Boolean).join(' '),
  ),
  '  esac',
  '}',
]

const bash = (commands: Commands): string =>
  [
    ...functions(commands),
    '_headgate() {',
    '  local place="" i',
    '  for ((i = 1; i < COMP_CWORD; i++)); do',
    '    case " $(_headgate_subcommands "$place") " in',
    '      *" ${COMP_WORDS[i]} "*) place="$place ${COMP_WORDS[i]}" ;;',
    '    esac',
    '  done',
    '  COMPREPLY=($(compgen -W "$(_headgate_words "$place")" -- "${COMP_WORDS[COMP_CWORD]}"))',
    '}',
    'complete -o default -F _headgate headgate',
  ].join('\n')

const zsh = (commands: Commands): string =>
  [
    '#compdef headgate',
    ...functions(commands),
    '_headgate() {',
    '  local place="" word',
    '  for word in ${words[2,CURRENT-1]}; do',
    '    case " $(_headgate_subcommands "$place") " in',
    '      *" $word "*) place="$place $word" ;;',
    '    esac',
    '  done',
    '  compadd -- ${=$(_headgate_words "$place")} || _files',
    '}',
    // In a folder of $fpath the file is the function; otherwise it is registered, which needs compinit.
    'if [ "$funcstack[1]" = "_headgate" ]; then',
    '  _headgate "$@"',
    'else',
    '  if ! typeset -f compdef > /dev/null; then autoload -Uz compinit && compinit; fi',
    '  compdef _headgate headgate',
    'fi',
  ].join('\n')

/** A text in single quotes, for fish. */
const fishQuoted = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`

const fish = (commands: Commands): string => {
  const places = commands.map(({ place }) => place).filter((place) => place !== '')
  const complete = (place: string, rest: string): string =>
    `complete -c headgate -n ${fishQuoted(`__headgate_at "${place}"`)} ${rest}`
  return [
    'function __headgate_at',
    '    set -l place ""',
    '    set -l tokens (commandline -opc)',
    '    for word in $tokens[2..-1]',
    `        if contains -- "$place $word" ${places.map(fishQuoted).join(' ')}`,
    '            set place "$place $word"',
    '        end',
    '    end',
    '    test "$place" = "$argv[1]"',
    'end',
    ...(commands[0]?.options ?? []).map(
      ({ name, about, hasValue }) =>
        `complete -c headgate -l ${name.slice(2)} ${hasValue ? '-r ' : ''}-d ${fishQuoted(about)}`,
    ),
    ...commands.flatMap(({ place, subcommands, options }) => [
      ...subcommands.map(({ name, about }) => complete(place, `-f -a ${fishQuoted(name)} -d ${fishQuoted(about)}`)),
      ...(place === '' ? [] : options).map(({ name, about, hasValue }) =>
        complete(place, `-l ${name.slice(2)} ${hasValue ? '-r ' : ''}-d ${fishQuoted(about)}`),
      ),
    ]),
  ].join('\n')
}

/** The script of each shell. */
export const SHELLS = { bash, zsh, fish } as const
