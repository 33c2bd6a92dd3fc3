/** Words of Connect. */
import { counted, words } from './words.ts'

export const connect = words({
  clients: 'Clients',
  choose: 'Client',
  sdks: 'SDKs and commands',
  programs: 'Programs',
  shell: 'Shell',
  shells: { sh: 'sh, bash, zsh', fish: 'fish', powershell: 'PowerShell' },
  model: 'Model or route',
  modelHint: 'auto lets the gateway choose',
  key: {
    needed: 'Put a client key where the text says YOUR_HEADGATE_KEY.',
    create: 'Create a client key',
    none: 'This gateway needs no client key. Clients refuse an empty one, so the text says any.',
  },
  command: 'Let the command line write the file',
  commandAbout: 'It keeps the rest of the file, and --undo restores it.',
  file: (path: string) => `Or put this in ${path}`,
  fileVariable: (name: string) => `If ${name} is set, the file is in that folder.`,
  variables: 'Or set variables',
  variablesOnly: 'Set variables',
  program: 'A whole program',
  test: 'Test it without the client',
  send: 'Send a request',
  live: {
    title: 'Requests',
    waiting: (client: string) => `Waiting for the first request from ${client}…`,
    waitingAbout: 'Keep this page open, and use the client. What arrives appears here, also when it is refused.',
    underWay: 'A request is under way.',
    answered: 'Answered',
    answeredBy: (by: string, time: string) => `by ${by} in ${time}`,
    refused: (status: number) => `Refused with status ${status}`,
    failed: (outcome: string) => `Not answered: ${outcome.replaceAll('_', ' ')}`,
    open: 'Open the request',
    as: (family: string) => `recognised as ${family}`,
    total: (n: number) => counted(n, 'request'),
    ago: (text: string) => `${text} ago`,
    model: (model: string) => `model ${model}`,
    earlier: (text: string) => `Refused ${text} ago, before the last request:`,
    received: 'The client received:',
    others: 'Other clients that have called',
    noOthers: 'No other client has called since the gateway started.',
    family: 'Client',
    last: 'Last request',
    outcome: 'Outcome',
    count: 'Requests',
  },
  problem: {
    no_key: 'The request had no key. Set the key of the client; this gateway requires one.',
    wrong_key: (header: string, last4: string | null) =>
      last4 === null
        ? `The key in the header ${header} is not valid here.`
        : `The key in the header ${header}, which ends in ${last4}, is not valid here.`,
    doubled_path: (url: string) =>
      `The client adds /v1 itself, so the path has it twice. Set the address without it: ${url}`,
    unknown_path: 'The gateway has no such path. Check the address in the client.',
    web_socket: 'The client tried a WebSocket on a path that has none. Most clients continue over HTTP.',
    unknown_model: 'The gateway knows no such model. Choose another name in the client, or make it a route.',
    other: 'The request was refused.',
  },
  noSuchClient: (name: string) => `There is no client "${name}" here.`,
})
