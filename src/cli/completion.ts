// biome-ignore-all lint/suspicious/noTemplateCurlyInString: shell variables are written
/** Completion scripts of shells, written from the commands of the program. */

/** A value: one of some words, the name of a file, or any text. */
export type CompletedValue = readonly string[] | 'file' | 'any'

/** `place`: the words that lead to it, each after a blank: ` keys create`; empty for the program. */
export type CompletedCommand = {
  readonly place: string
  readonly subcommands: readonly { readonly name: string; readonly about: string }[]
  /** `value`: null: it takes none. */
  readonly options: readonly {
    readonly name: string
    readonly short: string | null
    readonly about: string
    readonly value: CompletedValue | null
  }[]
  /** Of its arguments. */
  readonly values: readonly CompletedValue[]
}

type Commands = readonly CompletedCommand[]

/** A text in single quotes, for POSIX shells. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`
const namesOf = (list: readonly { readonly name: string }[]): string => list.map(({ name }) => name).join(' ')
const choicesOf = (values: readonly CompletedValue[]): readonly string[] =>
  values.flatMap((value) => (typeof value === 'string' ? [] : value))

/** Branches of a `case` that print words. */
const branches = (commands: Commands, words: (command: CompletedCommand) => string): readonly string[] =>
  commands
    .filter((command) => words(command) !== '')
    .map((command) => `    ${quoted(command.place)}) echo ${quoted(words(command))} ;;`)

const globals = (commands: Commands): CompletedCommand['options'] => commands[0]?.options ?? []

/** Branches for the options with a value: the place and the option are the word. Those of the program are at every place. */
const valueBranches = (commands: Commands): readonly string[] =>
  commands.flatMap(({ place, options }) =>
    options.flatMap(({ name, short, value }) => {
      if (value === null) return []
      const before = place === '' ? '*' : ''
      const patterns = [name, short].flatMap((flag) => (flag === null ? [] : [before + quoted(`${place} ${flag}`)]))
      const action = value === 'file' ? 'return 2' : value === 'any' ? ':' : `echo ${quoted(value.join(' '))}`
      return [`    ${patterns.join('|')}) ${action} ;;`]
    }),
  )

/**
 * Functions of bash and zsh: the subcommands of a place, all words at it, whether it takes files, and the values of the option
 * before: it prints them, or returns 1: no option with a value; 2: a file.
 */
const functions = (commands: Commands): readonly string[] => [
  '_headgate_subcommands() {',
  '  case "$1" in',
  ...branches(commands, ({ subcommands }) => namesOf(subcommands)),
  '  esac',
  '}',
  '_headgate_words() {',
  '  case "$1" in',
  ...branches(commands, ({ place, subcommands, options, values }) =>
    [
      namesOf(subcommands),
      choicesOf(values).join(' '),
      namesOf(options),
      place === '' ? '' : namesOf(globals(commands)),
    ]
      .filter(Boolean)
      .join(' '),
  ),
  '  esac',
  '}',
  '_headgate_takes_files() {',
  '  case "$1" in',
  `    ${commands
    .filter(({ values }) => values.includes('file'))
    .map(({ place }) => quoted(place))
    .join('|')}) ;;`,
  '    *) return 1 ;;',
  '  esac',
  '}',
  '_headgate_values() {',
  '  case "$1" in',
  ...valueBranches(commands),
  '    *) return 1 ;;',
  '  esac',
  '}',
]

const bash = (commands: Commands): string =>
  [
    ...functions(commands),
    '_headgate() {',
    '  local place="" word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" values i',
    '  for ((i = 1; i < COMP_CWORD; i++)); do',
    '    case " $(_headgate_subcommands "$place") " in',
    '      *" ${COMP_WORDS[i]} "*) place="$place ${COMP_WORDS[i]}" ;;',
    '    esac',
    '  done',
    // Bash makes three words of --format=csv.
    '  [ "$before" = "=" ] && before="${COMP_WORDS[COMP_CWORD-2]}"',
    '  [ "$word" = "=" ] && word=""',
    '  COMPREPLY=()',
    '  values="$(_headgate_values "$place $before")"',
    '  case $? in',
    '    0) COMPREPLY=($(compgen -W "$values" -- "$word")); compopt +o default 2> /dev/null ;;',
    '    1)',
    '      case "$word" in',
    '        -*) ;;',
    '        *) _headgate_takes_files "$place" && return ;;',
    '      esac',
    '      COMPREPLY=($(compgen -W "$(_headgate_words "$place")" -- "$word")) ;;',
    '  esac',
    '}',
    'complete -o default -F _headgate headgate',
  ].join('\n')

const zsh = (commands: Commands): string =>
  [
    '#compdef headgate',
    ...functions(commands),
    '_headgate() {',
    '  local place="" word before="${words[CURRENT-1]}" values',
    '  for word in ${words[2,CURRENT-1]}; do',
    '    case " $(_headgate_subcommands "$place") " in',
    '      *" $word "*) place="$place $word" ;;',
    '    esac',
    '  done',
    '  case "${words[CURRENT]}" in',
    '    --*=*) before="${words[CURRENT]%%=*}"; compset -P 1 "*=" ;;',
    '  esac',
    '  values="$(_headgate_values "$place $before")"',
    '  case $? in',
    '    0) [ -z "$values" ] || compadd -- ${=values} ;;',
    '    2) _files ;;',
    '    *)',
    '      if [[ "${words[CURRENT]}" != -* ]] && _headgate_takes_files "$place"; then _files; return; fi',
    '      compadd -- ${=$(_headgate_words "$place")} || _files ;;',
    '  esac',
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

/** `-x`: it has a value, and no file is one. */
const fishOption = ({ name, short, about, value }: CompletedCommand['options'][number]): string =>
  [
    `-l ${name.slice(2)}`,
    short === null ? '' : `-s ${short.slice(1)}`,
    value === null ? '' : value === 'file' ? '-r -F' : '-x',
    value === null || typeof value === 'string' ? '' : `-a ${fishQuoted(value.join(' '))}`,
    `-d ${fishQuoted(about)}`,
  ]
    .filter(Boolean)
    .join(' ')

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
    ...globals(commands).map((option) => `complete -c headgate ${fishOption(option)}`),
    ...commands.flatMap(({ place, subcommands, options, values }) => [
      ...subcommands.map(({ name, about }) => complete(place, `-f -a ${fishQuoted(name)} -d ${fishQuoted(about)}`)),
      ...(place === '' || values.includes('file')
        ? []
        : [complete(place, `-f -a ${fishQuoted(choicesOf(values).join(' '))}`)]),
      ...(place === '' ? [] : options).map((option) => complete(place, fishOption(option))),
    ]),
  ].join('\n')
}

/** The script of each shell. */
export const SHELLS = { bash, zsh, fish } as const
