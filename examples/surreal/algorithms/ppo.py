"""PPO: clipped policy gradients from the newest fragments of agents, each used in a single update."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from shared.settings import Settings

from algorithms import Arrays, Spaces, State
from algorithms.networks import forward, layers

LAMBDA = 0.95
CLIP = 0.2
ENTROPY = 0.0
LARGEST_GRADIENT = 0.5
network = partial(forward, tanh=jnp.tanh)


class Ppo:
    """Learns from arrays whose first two axes are the step and the environment."""

    def __init__(self, settings: Settings, spaces: Spaces) -> None:
        self.settings, self.spaces = settings, spaces
        self.optimizer = optax.chain(
            optax.clip_by_global_norm(LARGEST_GRADIENT), optax.adam(settings.learning_rate, eps=1e-5)
        )
        self._learn = jax.jit(self._update)

    def initial(self) -> State:
        random = np.random.default_rng(self.settings.seed)
        sizes = [self.spaces.observations, self.settings.hidden, self.settings.hidden]
        parameters = {
            "policy": layers(random, [*sizes, self.spaces.actions], last=0.01),
            "value": layers(random, [*sizes, 1]),
        }
        key = jax.random.PRNGKey(self.settings.seed)
        return {"parameters": parameters, "optimizer": self.optimizer.init(parameters), "key": key}

    def policy(self, state: State) -> list[np.ndarray]:
        return jax.device_get(state["parameters"]["policy"])

    def learn(self, state: State, batch: Arrays) -> tuple[State, dict[str, float], np.ndarray | None]:
        state, scalars = self._learn(state, batch)
        return state, {name: float(value) for name, value in scalars.items()}, None

    def _update(self, state, batch):
        batch = self._with_advantages(state["parameters"]["value"], batch)
        transitions = {name: values.reshape(-1, *values.shape[2:]) for name, values in batch.items()}
        count = len(transitions["actions"])
        size = min(self.settings.batch, count)
        key, *keys = jax.random.split(state["key"], self.settings.epochs + 1)
        orders = [
            jax.random.permutation(each, count)[: count - count % size].reshape(-1, size) for each in keys
        ]

        def step(carried, chosen):
            parameters, optimizer = carried
            minibatch = {name: values[chosen] for name, values in transitions.items()}
            (_, scalars), gradients = jax.value_and_grad(self._loss, has_aux=True)(parameters, minibatch)
            changes, optimizer = self.optimizer.update(gradients, optimizer, parameters)
            return (optax.apply_updates(parameters, changes), optimizer), scalars

        carried = (state["parameters"], state["optimizer"])
        (parameters, optimizer), scalars = jax.lax.scan(step, carried, jnp.concatenate(orders))
        state = {"parameters": parameters, "optimizer": optimizer, "key": key}
        return state, {name: values.mean() for name, values in scalars.items()}

    def _with_advantages(self, value, batch):
        """Return the batch with generalized advantage estimates and targets of the value network."""
        values = network(value, batch["observations"])[..., 0]
        following = network(value, batch["next_observations"])[..., 0]
        discount = self.settings.discount
        errors = batch["rewards"] + discount * following * (1 - batch["terminated"]) - values

        def back(advantage, at):
            error, ended = at
            advantage = error + discount * LAMBDA * (1 - ended) * advantage
            return advantage, advantage

        _, advantages = jax.lax.scan(back, jnp.zeros_like(errors[0]), (errors, batch["ended"]), reverse=True)
        kept = {name: batch[name] for name in ("observations", "actions", "log_probabilities")}
        return {**kept, "advantages": advantages, "targets": advantages + values}

    def _loss(self, parameters, batch):
        log_probabilities = jax.nn.log_softmax(network(parameters["policy"], batch["observations"]))
        chosen = jnp.take_along_axis(log_probabilities, batch["actions"][:, None], axis=1)[:, 0]
        ratios = jnp.exp(chosen - batch["log_probabilities"])
        advantages = batch["advantages"]
        advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        clipped = jnp.clip(ratios, 1 - CLIP, 1 + CLIP)
        policy_loss = -jnp.minimum(ratios * advantages, clipped * advantages).mean()
        values = network(parameters["value"], batch["observations"])[:, 0]
        value_loss = 0.5 * jnp.square(values - batch["targets"]).mean()
        entropy = -(jnp.exp(log_probabilities) * log_probabilities).sum(axis=1).mean()
        scalars = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
        return policy_loss + 0.5 * value_loss - ENTROPY * entropy, scalars
