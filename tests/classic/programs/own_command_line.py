"""A command line of the user: create, words behind --, and commands of symphony that it replaces."""

from symphony.commandline import SymphonyParser
from symphony.engine import Cluster


class MyParser(SymphonyParser):
    def create_cluster(self):
        return Cluster.new("tmux")

    def setup(self):
        super().setup()
        parser = self.add_subparser("create", aliases=["c"])
        self._add_experiment_name(parser)
        parser.add_argument("-n", "--num-agents", type=int, default=1)
        self.add_dry_run(parser)

    def action_create(self, args):
        exp = self.cluster.new_experiment(args.experiment_name)
        learner = exp.new_process("learner", cmds=[f"echo learner {' '.join(args.remainder)}", "sleep 3600"])
        learner.binds("ps")
        learner.exposes("board")
        group = exp.new_process_group("agents")
        for i in range(args.num_agents):
            group.new_process(f"agent-{i}", cmds=[f"echo agent {i}", "sleep 3600"]).connects("ps")
        self.cluster.launch(exp, dry_run=args.dry_run)

    def action_list_processes(self, args):
        name = self._get_experiment(args)
        print("processes of", name)
        print(self._print_experiment(self.cluster.describe_experiment(name)))

    def action_delete(self, args):
        print("the models are kept")
        return super().action_delete(args)


if __name__ == "__main__":
    MyParser().main()
