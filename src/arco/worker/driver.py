"""`python -m arco.worker.driver`: a driver process. Only a worker starts it."""

from arco.worker._driver import main

if __name__ == "__main__":
    main()
