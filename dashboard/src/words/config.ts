/** Words of Configuration. */
import { counted, words } from './words.ts'

type Required = {
  readonly region: readonly string[] | null
  readonly retention: number | null
  readonly training: boolean | null
}

/** A request that reaches a target which does not satisfy a claim. */
type Way = {
  readonly key: string | null
  readonly rule: string | null
  readonly person: number | null
  readonly team: string
  readonly name: string
  readonly style: string
  readonly after: readonly string[]
  readonly because: string
  readonly provider: string
  readonly model: string
  readonly lack: string
}

export const config = words({
  sections: {
    label: 'Parts of the configuration',
    settings: 'Settings',
    alerts: 'Alerts',
    prices: 'Prices',
    tokens: 'Tokens and roles',
    reloads: 'History',
    audit: 'Audit log',
    policy: 'Data policy',
    people: 'People',
    backup: 'Backup',
    edit: 'Edit a copy',
  },
  policy: {
    facts: 'Facts by provider',
    factsAbout: 'As headgate.yaml declares them. A missing fact satisfies no requirement.',
    columns: {
      provider: 'Provider',
      region: 'Region',
      retention: 'Retention',
      training: 'Training',
      models: 'Models that differ',
    },
    missing: 'not declared',
    days: (n: number) => (n === 0 ? 'none' : counted(n, 'day')),
    training: { yes: 'yes', no: 'no' },
    teams: 'Required by teams',
    edit: 'Change',
    editTeam: (team: string) => `Change what ${team} requires`,
    required: ({ region, retention, training }: Required) => {
      const parts = [
        ...(region === null ? [] : [region.length === 0 ? 'no region at all' : `region ${region.join(' or ')}`]),
        ...(retention === null
          ? []
          : [retention === 0 ? 'no retention' : `at most ${counted(retention, 'day')} of retention`]),
        ...(training === null ? [] : ['no training']),
      ]
      return parts.length === 0 ? 'nothing' : parts.join(', ')
    },
    claims: 'Claims',
    noClaims: 'The configuration has no claims. Write some to claims in headgate.yaml.',
    onFailure: {
      warn: 'A change that breaks one is made, with a warning.',
      refuse: 'A change that breaks one is refused.',
    },
    states: { holds: 'holds', fails: 'fails', invalid: 'cannot be proved' },
    prove: 'Prove a claim',
    claim: 'Claim',
    submit: 'Prove',
    walked: (clients: number, names: number) => `${counted(clients, 'client')}, ${counted(names, 'name')}`,
    way: ({ key, rule, person, team, name, style, after, because, provider, model, lack }: Way) => {
      const who =
        key !== null
          ? `Key ${key}`
          : rule !== null
            ? `A token of the rule ${rule}`
            : person !== null
              ? `A person of the team ${team}`
              : 'A request without a key'
      const when = after.length === 0 ? '' : ` while ${after.join(', ')} fails`
      return `${who} asks ${name} (${style})${when}: ${provider}/${model} by ${because}, which has ${lack}.`
    },
  },
  problems: {
    title: (n: number) => `The configuration on disk has ${counted(n, 'problem')}`,
    about: (time: string) => `It was refused at ${time}. The gateway runs with the configuration before it.`,
    warnings: 'Warnings',
    found: (text: string) => `found ${text}`,
    allowed: (text: string) => `allowed: ${text}`,
    copyAll: 'Copy all',
  },
  settings: {
    label: 'Settings with their origin',
    search: 'Name, value, variable or description',
    onlySet: 'Only what is set',
    name: 'Setting',
    value: 'Value',
    origin: 'Origin',
    about: 'Description',
    notSet: 'not set',
    empty: 'No setting matches.',
    noneSet: 'Every setting has its default.',
    stale: 'The file has changed since, so lines may differ.',
    count: (n: number, all: number) => (n === all ? counted(all, 'setting') : `${n} of ${counted(all, 'setting')}`),
    secret: 'Secrets are not shown.',
    variable: (name: string) => `variable ${name}`,
    default: 'default',
  },
  others: {
    providers: 'Providers',
    routes: 'Routes of the file',
    accounts: 'Teams, keys, budgets and prices of the file',
    id: 'ID',
    kind: 'Kind',
    url: 'Base URL',
    keys: 'Keys',
    models: 'Models',
    name: 'Name',
    targets: 'Targets',
    keyCount: (n: number) => (n === 0 ? 'none' : counted(n, 'key')),
    anyModel: 'all that it lists',
    noProviders: 'No provider is configured; the built-in demo answers.',
  },
  reloads: {
    title: 'Reloads',
    reload: 'Reload now',
    reloadAbout: 'Reads headgate.yaml and .env again, as SIGHUP does. A refused configuration changes nothing.',
    needs: 'This needs the role operator.',
    none: 'No reload since the gateway started.',
    noneAbout: 'A changed file is read soon after it is written, and at once by the button above.',
    outcome: { changed: 'changed', unchanged: 'unchanged', refused: 'refused' },
    done: {
      changed: 'The configuration was changed.',
      unchanged: 'Nothing has changed.',
      refused: 'The configuration was refused.',
    },
  },
  people: {
    label: 'People who have signed in',
    needs: 'The list of people needs the role admin for all teams.',
    none: 'No one has signed in so far.',
    more: 'Show more',
    blocked: 'blocked',
    block: 'Block',
    admit: 'Admit again',
    signOut: 'End sessions',
    noRole: 'no role',
    role: (role: string, team: string | null) => (team === null ? role : `${role} of ${team}`),
    by: (by: string, group: string | null) =>
      by === 'hand' ? 'given by hand' : group === null ? 'as everyone' : `by the group ${group}`,
    sessions: (n: number) => counted(n, 'session'),
    take: (role: string, person: string) => `Take the role ${role} from ${person}`,
    giveTo: (person: string) => `Give a role to ${person}`,
    roleName: 'Role',
    teamName: 'For',
    allTeams: 'for all teams',
    ofTeam: (team: string) => `for the team ${team}`,
    give: 'Give this role',
    programs: 'Programs',
    noPrograms: 'No program is signed in.',
    end: 'End',
    endProgram: (program: string, address: string) => `End the sign-in of ${program} at ${address}`,
  },
  audit: {
    rest: 'rests',
    by: (name: string) => `by ${name}`,
    title: 'Audit log',
    needs: 'The audit log needs the role admin for all teams.',
    time: 'Time',
    actor: 'Actor',
    action: 'Action',
    object: 'Object',
    details: 'Details',
    more: 'Older entries',
    none: 'No entry yet. Each write, sign-in and shown secret has one.',
    noMatch: 'No entry matches.',
    show: 'Show',
    changes: 'Changes',
    signIns: 'Sign-ins',
    search: 'Text, address or ID',
    kind: 'Kind',
    kinds: {
      key: 'Key',
      team: 'Team',
      budget: 'Budget',
      price: 'Price',
      token: 'Admin token',
      route: 'Route',
      person: 'Person',
      circuit: 'Provider',
      credential: 'Provider key',
      body: 'Kept text',
      usage: 'Usage',
      alerts: 'Alerts',
      system: 'System',
    },
    before: 'before',
    after: 'after',
    label: 'Audit log, newest first',
  },
  edit: {
    title: 'Edit a copy',
    about:
      'This is a copy in the browser. The page writes no file: download or copy the text, put it in place of headgate.yaml, then reload.',
    text: 'Text of headgate.yaml',
    complete: 'Ctrl+Space lists what can stand at the caret.',
    options: 'What can stand here',
    found: (n: number) => (n === 0 ? 'Nothing is known to stand here.' : counted(n, 'entry', 'entries')),
    open: 'Open headgate.yaml',
    start: 'Start from what runs',
    startAbout: 'The whole configuration. Secrets are variables, client keys are digests.',
    startNeeds: 'The whole configuration needs the role admin.',
    unwritten: 'What runs cannot be written as a file without a loss. Open your file instead. It would change:',
    check: 'Check',
    checking: 'Checking…',
    needs: 'Checking needs the role operator.',
    download: 'Download',
    copy: 'Copy',
    ok: 'This file is valid.',
    bad: (n: number) => `This file has ${counted(n, 'problem')}.`,
    outdated: 'The text has changed since this check.',
    same: 'It changes nothing of the running configuration.',
    changes: 'It changes',
    runs: (value: string, origin: string) => `now ${value} (${origin})`,
    routes: 'Routes with it',
    sameRoutes: 'Every route has the same targets in the same order.',
    routeBefore: (targets: string) => `now ${targets}`,
    routeAfter: (targets: string) => `then ${targets}`,
    noRoute: 'no such route',
    noTarget: 'no target',
    difference: 'Difference to the text it began with',
    noDifference: 'The text is as it began.',
    needed: (names: string) => `Set these variables to the secrets of your file: ${names}`,
    generated: 'Made from the running configuration: what the environment does not set.',
  },
})
