"""SAC: an off-policy actor, two critics and a learned temperature, trained on replayed transitions."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from shared.settings import Settings

from algorithms import Arrays, Spaces, State
from algorithms.networks import forward, layers

SMOOTHING = 0.005
network = partial(forward, tanh=jnp.tanh)


class Sac:
    """Learns from arrays whose first axis is `epochs` batches of transitions, one after the other."""

    def __init__(self, settings: Settings, spaces: Spaces) -> None:
        self.settings, self.spaces = settings, spaces
        self.optimizer = optax.adam(settings.learning_rate)
        self._learn = jax.jit(self._update)

    def initial(self) -> State:
        random = np.random.default_rng(self.settings.seed)
        hidden = [self.settings.hidden, self.settings.hidden]
        observations, actions = self.spaces.observations, self.spaces.actions
        parameters = {
            "policy": layers(random, [observations, *hidden, 2 * actions], last=0.01),
            "critics": [layers(random, [observations + actions, *hidden, 1]) for _ in range(2)],
            "log_temperature": np.zeros((), np.float32),
        }
        key = jax.random.PRNGKey(self.settings.seed)
        optimizer = self.optimizer.init(parameters)
        targets = parameters["critics"]
        return {"parameters": parameters, "targets": targets, "optimizer": optimizer, "key": key}

    def policy(self, state: State) -> list[np.ndarray]:
        return jax.device_get(state["parameters"]["policy"])

    def learn(self, state: State, batch: Arrays) -> tuple[State, dict[str, float], np.ndarray | None]:
        state, scalars, priorities = self._learn(state, batch)
        return state, {name: float(value) for name, value in scalars.items()}, np.asarray(priorities)

    def _update(self, state, transitions):
        batches = jax.tree.map(
            lambda values: values.reshape(-1, self.settings.batch, *values.shape[1:]), transitions
        )

        def step(state, batch):
            key, acting, following = jax.random.split(state["key"], 3)
            targets = self._targets(state, batch, following)
            (_, (scalars, errors)), gradients = jax.value_and_grad(self._loss, has_aux=True)(
                state["parameters"], batch, targets, acting
            )
            changes, optimizer = self.optimizer.update(gradients, state["optimizer"])
            parameters = optax.apply_updates(state["parameters"], changes)
            slow = optax.incremental_update(parameters["critics"], state["targets"], SMOOTHING)
            state = {"parameters": parameters, "targets": slow, "optimizer": optimizer, "key": key}
            return state, (scalars, errors)

        state, (scalars, errors) = jax.lax.scan(step, state, batches)
        return state, {name: values.mean() for name, values in scalars.items()}, errors.reshape(-1)

    def _act(self, policy, observations, key):
        """Return actions of the current policy, from -1 to 1 as in the batches, and their log probabilities.

        environments.py scales them.
        """
        means, deviations = jnp.split(network(policy, observations), 2, axis=-1)
        deviations = jnp.clip(deviations, -5, 2)
        noise = jax.random.normal(key, means.shape)
        before = means + jnp.exp(deviations) * noise
        densities = -0.5 * jnp.square(noise) - deviations - 0.5 * jnp.log(2 * jnp.pi)
        # The log of the derivative of tanh, in a numerically stable form.
        squashed = 2 * (jnp.log(2.0) - before - jax.nn.softplus(-2 * before))
        return jnp.tanh(before), (densities - squashed).sum(axis=-1)

    def _targets(self, state, batch, key):
        actions, log_probabilities = self._act(state["parameters"]["policy"], batch["next_observations"], key)
        values = jnp.minimum(*_values(state["targets"], batch["next_observations"], actions))
        values -= jnp.exp(state["parameters"]["log_temperature"]) * log_probabilities
        return batch["rewards"] + self.settings.discount * (1 - batch["terminated"]) * values

    def _loss(self, parameters, batch, targets, key):
        first, second = _values(parameters["critics"], batch["observations"], batch["actions"])
        weights = batch.get("weights", 1.0)
        critic_loss = (weights * (jnp.square(first - targets) + jnp.square(second - targets))).mean()
        actions, log_probabilities = self._act(parameters["policy"], batch["observations"], key)
        fixed = jax.lax.stop_gradient
        values = jnp.minimum(*_values(fixed(parameters["critics"]), batch["observations"], actions))
        temperature = jnp.exp(parameters["log_temperature"])
        policy_loss = (fixed(temperature) * log_probabilities - values).mean()
        # The target entropy of SAC: minus the number of action dimensions.
        surplus = fixed(log_probabilities.mean()) - self.spaces.actions
        temperature_loss = -parameters["log_temperature"] * surplus
        scalars = {"critic_loss": critic_loss, "policy_loss": policy_loss, "temperature": temperature}
        return critic_loss + policy_loss + temperature_loss, (scalars, jnp.abs(first - targets))


def _values(critics, observations, actions):
    inputs = jnp.concatenate([observations, actions], axis=-1)
    return [network(critic, inputs)[..., 0] for critic in critics]
