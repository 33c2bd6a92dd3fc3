import { problemLine } from '../config/problem.ts'
import type { Reloaded } from '../config/watch.ts'
import { egressesOf } from '../core/egress.ts'
import type { AlertingEvent } from '../observe/alerts/alerting.ts'
import { configEvent } from '../observe/live/live-event.ts'
import { trustByDefault } from '../transport/net/authorities.ts'
import { processViews } from './admin-parts.ts'
import { openWarningOf, warnIfOpen } from './announce.ts'
import { startDrill } from './drill.ts'
import { startExport } from './export.ts'
import { fleetOf } from './fleet/fleet-place.ts'
import { startLiveDrill } from './live-drill.ts'
import type { Runtime } from './runtime.ts'
import { startShadows } from './shadows.ts'
import { sharedRole } from './shared-role.ts'

/** Loads the alerts once they are configured. Of several workers the first one sends them, of several gateways one. */
export const startAlerts = async (runtime: Runtime): Promise<void> => {
  const { current, gateway, keys, worker } = runtime
  if (current.alerting || !current.config.alerts || (worker && worker.number !== 1)) return
  const [{ Alerting }, { stateFile }, { joinBudgets, joinViews, sharedView }] = await Promise.all([
    import('../observe/alerts/alerting.ts'),
    import('../observe/alerts/alert-storage.ts'),
    import('../observe/alerts/view.ts'),
  ])
  current.alerting ??= new Alerting({
    storage: sharedRole(runtime, 'alerts') ?? stateFile(current.config.settings.data.dir, 'alerts.json'),
    alerts: () => current.config.alerts,
    dial: gateway.world.dial,
    async view(window) {
      const thresholds = fleetOf(runtime) ? (current.config.alerts?.rules.budget ?? null) : null
      const [{ budgets, keys: clientKeys }, views] = await Promise.all([
        sharedView(gateway, keys.directory()),
        processViews(runtime, window, thresholds),
      ])
      const reached = views.flatMap((one) => one.reached ?? [])
      return { ...joinViews(views), keys: clientKeys, budgets: joinBudgets([...budgets, ...reached]) }
    },
    report: (event) => reportAlerting(runtime, event),
  })
}

const reportAlerting = ({ log, metrics }: Runtime, event: AlertingEvent): void => {
  switch (event.result) {
    case 'sent':
      return metrics.alert(event.rule, 'sent')
    case 'failed': {
      metrics.alert(event.rule, 'failed')
      const message = `An alert was not delivered: ${event.reason}. Check alerts.url in headgate.yaml.`
      return log.error('alerts', { rule: event.rule, message })
    }
    case 'dropped': {
      for (const [rule, count] of event.rules) metrics.alert(rule, 'dropped', count)
      const rules = [...event.rules].map(([rule, count]) => `${rule}: ${count}`).join(', ')
      const message = `${event.count} alerts were dropped, the least urgent first: too many wait for the receiver (${rules}). Check alerts.url in headgate.yaml. The next alert states their number.`
      return log.error('alerts', { message })
    }
    case 'ignored':
      return log.error('alerts', {
        message: `${event.count} conditions have no alert, because too many hold at once. Check alerts.rules in headgate.yaml.`,
      })
    case 'unstored':
      return log.error('alerts', {
        message: `Alerts cannot be stored in the data folder (data.dir, DATA_DIR): ${event.reason}. After a restart, some may be sent again.`,
      })
    default:
      throw new Error(`unknown event ${JSON.stringify(event satisfies never)}`)
  }
}

/** Keeps the text of the file for Configuration › History. Of several workers the first one does. */
export const rememberConfig = async (
  { current, gateway, log, worker }: Runtime,
  text: string | null,
): Promise<void> => {
  if (text === null || (worker && worker.number !== 1)) return
  const { keepConfig } = await import('../config/config-history.ts')
  try {
    await keepConfig(current.config.settings.data.dir, text, gateway.world.date())
  } catch (error) {
    const reason = error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
    log.warn('config', { message: `The text of the configuration was not kept in the data folder: ${reason}.` })
  }
}

export const applyReload = (runtime: Runtime, reloaded: Reloaded): void => {
  void runtime.current.tls?.reload()
  const { keys, lists, log, reload, worker } = runtime
  reload.note(reloaded)
  const [entry] = reload.history()
  if (entry) runtime.current.live?.note(configEvent(entry))
  if (reloaded.kind === 'refused') {
    for (const problem of reloaded.problems) log.error('config_refused', { message: problemLine(problem) })
    return
  }
  for (const warning of reloaded.warnings) log.warn('config', { message: warning })
  runtime.current.warnings = reloaded.warnings
  if (reloaded.kind === 'unchanged') return log.info('config_unchanged')
  const wasOpen = openWarningOf(runtime) !== null
  runtime.current.config = worker ? worker.share(reloaded.config) : reloaded.config
  runtime.ledger.limitsChanged()
  runtime.bodies.settingsChanged()
  trustByDefault(runtime.current.config.network.tls)
  runtime.dialer.keepOnly(egressesOf(runtime.current.config))
  lists.follow(runtime.current.config.instances)
  keys.settingsChanged()
  runtime.issuers.follow()
  if (!wasOpen) warnIfOpen(runtime)
  void startAlerts(runtime)
  void startExport(runtime)
  void startShadows(runtime)
  void startLiveDrill(runtime)
  void startDrill(runtime)
  void rememberConfig(runtime, reloaded.text)
  log.info('config_changed', { changes: [...reloaded.changes] })
}
