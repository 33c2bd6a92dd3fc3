/** All verbs. The module of a verb is loaded only if the verb is used. */
import type { DefineVerb } from './cli.ts'

export type VerbRow = {
  readonly name: string
  readonly summary: string
  readonly load: () => Promise<{ readonly define: DefineVerb }>
}

export const VERBS: readonly VerbRow[] = [
  { name: 'start', summary: 'start the gateway; the default without a verb', load: () => import('./verbs/start.ts') },
  { name: 'status', summary: 'show health, providers and budgets', load: () => import('./verbs/status.ts') },
  { name: 'health', summary: 'check readiness, for containers', load: () => import('./verbs/health.ts') },
  { name: 'doctor', summary: 'check this machine and the configuration', load: () => import('./verbs/doctor.ts') },
  { name: 'config', summary: 'check or show the configuration', load: () => import('./verbs/config.ts') },
  { name: 'providers', summary: 'list and test providers', load: () => import('./verbs/providers.ts') },
  { name: 'models', summary: 'list models', load: () => import('./verbs/models.ts') },
  { name: 'try', summary: 'send one prompt to one or more models', load: () => import('./verbs/try.ts') },
  { name: 'prove', summary: 'prove that requests stay where they must', load: () => import('./verbs/prove.ts') },
  { name: 'torture', summary: 'run the fault suite against a gateway', load: () => import('./verbs/torture.ts') },
  { name: 'explain', summary: 'explain how a request is or was routed', load: () => import('./verbs/explain.ts') },
  { name: 'what-if', summary: 'show routes as if providers were down', load: () => import('./verbs/what-if.ts') },
  { name: 'drill', summary: 'show what routes would lose in an outage', load: () => import('./verbs/drill.ts') },
  { name: 'connect', summary: 'configure a client for this gateway', load: () => import('./verbs/connect.ts') },
  { name: 'import', summary: 'convert a configuration of another gateway', load: () => import('./verbs/import.ts') },
  { name: 'login', summary: 'sign in with a company account', load: () => import('./verbs/login.ts') },
  { name: 'logout', summary: 'sign out', load: () => import('./verbs/logout.ts') },
  { name: 'whoami', summary: 'show who is signed in', load: () => import('./verbs/whoami.ts') },
  { name: 'token', summary: 'print an access token of the sign-in', load: () => import('./verbs/token.ts') },
  { name: 'keys', summary: 'manage client keys', load: () => import('./verbs/keys.ts') },
  { name: 'teams', summary: 'manage teams', load: () => import('./verbs/teams.ts') },
  { name: 'budgets', summary: 'manage budgets', load: () => import('./verbs/budgets.ts') },
  { name: 'prices', summary: 'manage price overrides', load: () => import('./verbs/prices.ts') },
  { name: 'tokens', summary: 'manage admin tokens', load: () => import('./verbs/tokens.ts') },
  { name: 'adopt', summary: 'move a record from the database to the file', load: () => import('./verbs/adopt.ts') },
  { name: 'export', summary: 'write teams, keys and budgets as YAML', load: () => import('./verbs/export.ts') },
  { name: 'usage', summary: 'report use and cost', load: () => import('./verbs/usage.ts') },
  { name: 'sessions', summary: 'list sessions of agents', load: () => import('./verbs/sessions.ts') },
  { name: 'end-users', summary: 'block end users', load: () => import('./verbs/end-users.ts') },
  {
    name: 'identities',
    summary: 'list and block subjects of signed tokens',
    load: () => import('./verbs/identities.ts'),
  },
  {
    name: 'routes',
    summary: 'manage routes of teams, steer canaries, read shadows',
    load: () => import('./verbs/routes.ts'),
  },
  { name: 'sign-ins', summary: 'list and end sign-ins of programs', load: () => import('./verbs/sign-ins.ts') },
  { name: 'claude', summary: 'show settings of Claude Code', load: () => import('./verbs/claude.ts') },
  { name: 'jwt', summary: 'check a signed token', load: () => import('./verbs/jwt.ts') },
  { name: 'guards', summary: 'list the guards, and try them on a text', load: () => import('./verbs/guards.ts') },
  { name: 'incidents', summary: 'list the outages of providers', load: () => import('./verbs/incidents.ts') },
  { name: 'logs', summary: 'show requests', load: () => import('./verbs/logs.ts') },
  { name: 'replay', summary: 'send a request again', load: () => import('./verbs/replay.ts') },
  { name: 'tape', summary: 'run a command with recorded answers', load: () => import('./verbs/tape.ts') },
  { name: 'cache', summary: 'purge the response cache', load: () => import('./verbs/cache.ts') },
  { name: 'audit', summary: 'list and verify the audit log', load: () => import('./verbs/audit.ts') },
  { name: 'db', summary: 'show, migrate and move databases', load: () => import('./verbs/db.ts') },
  { name: 'backup', summary: 'write a backup of the data folder', load: () => import('./verbs/backup.ts') },
  { name: 'restore', summary: 'restore a backup', load: () => import('./verbs/restore.ts') },
  { name: 'completion', summary: 'print completion for a shell', load: () => import('./verbs/completion.ts') },
]
